"""Whatever becomes of a request or a call, nothing of its contents is logged."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import STRIPE
from tests.support.events import with_body, with_key
from tests.support.every_outcome import (
    BODY,
    CONTENTS,
    KEY,
    OUTCOMES,
    POST,
    TEXT,
    Faulty,
    Function,
    Http,
    Kind,
    unknown,
)
from tests.support.large_answers import TOO_LARGE_FOR_AN_ITEM
from tests.support.protected import Protected, fails

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """Everything that anybody logs, at any level."""
    found: list[logging.LogRecord] = []

    class Everything(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            """Remember it."""
            found.append(record)

    root, ours, handler = logging.getLogger(), logging.getLogger("oncekey"), Everything()
    before = root.level, ours.level
    root.addHandler(handler)
    for logger in (root, ours):
        logger.setLevel(logging.DEBUG)
    yield found
    root.removeHandler(handler)
    for logger, level in zip((root, ours), before, strict=True):
        logger.setLevel(level)


def check(logged: list[logging.LogRecord], events: set[str]) -> None:
    """These events were logged, and of the contents nothing, in no field of any record."""
    names = {getattr(record, "oncekey_event", None) for record in logged}
    assert events <= names, names
    for record in logged:
        said = f"{record.getMessage()} {vars(record)!r}"
        assert [text for text in CONTENTS if text in said] == [], said


@pytest.mark.parametrize("kind", [Http, Function], ids=["handler", "function"])
@pytest.mark.parametrize(("outcome", "events"), OUTCOMES.values(), ids=OUTCOMES)
def test_no_outcome_logs_what_was_asked_or_answered(
    logged: list[logging.LogRecord],
    kind: Kind,
    outcome: Callable[[Kind], None],
    events: set[str],
) -> None:
    """Neither the key, nor the body, the answer, the text of an error, a credential or a secret is
    in any message or field, however a request or a call ends.

    Red when any event tells one of them.
    """
    outcome(kind)

    check(logged, events)


def test_a_handler_without_a_key_logs_nothing_of_its_request(
    logged: list[logging.LogRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bare runs: without a key where none is required, and where the library is switched off."""
    Protected(required=False).send(with_key(POST))
    check(logged, {"unprotected"})

    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    for kind in (Http, Function):
        kind().send()
        unknown(kind)
    check(logged, set())


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(with_key(POST, KEY, KEY + "-and-another"), id="two keys"),
        pytest.param(with_key(POST, KEY + ", " + KEY), id="a list of keys"),
        pytest.param(with_body(POST, f'{{"note": "{BODY}"'), id="no JSON"),
    ],
)
def test_a_request_that_is_refused_at_once_logs_nothing_of_itself(
    logged: list[logging.LogRecord], event: dict[str, Any]
) -> None:
    """What is wrong with a key or a body is told to the client, and to nobody else."""
    Protected().send(event)

    check(logged, set())


def test_a_selector_that_fails_is_told_without_what_it_said(
    logged: list[logging.LogRecord],
) -> None:
    """The author's `fingerprint=` raises with the body in its text."""

    def selector(request: Any) -> Any:
        raise ValueError(f"cannot read {BODY}")

    Protected(fingerprint=selector).send(POST)

    check(logged, {"request-not-understood"})


def test_an_answer_that_nobody_can_keep_is_told_without_it(
    logged: list[logging.LogRecord],
) -> None:
    """Too large for an item, and no bucket: an error in the log, with its reason only."""

    class NoBucket(Faulty):
        has_bucket = False

    service = Protected(store=NoBucket())
    service.then = lambda _event, _op: {"statusCode": 201, "body": TOO_LARGE_FOR_AN_ITEM}
    service.send(POST)
    service.send(POST)

    check(logged, {"answer-not-kept", "answer-unavailable"})


def test_a_stored_failure_is_told_without_its_text(logged: list[logging.LogRecord]) -> None:
    """The message names the kind of error and where it arose; its text may hold anything."""
    service = Protected(preset=STRIPE)
    service.then = fails(ValueError(TEXT))
    service.send(POST)

    check(logged, {"failure-stored"})


def test_a_retention_that_is_too_short_is_told_without_the_request(
    logged: list[logging.LogRecord],
) -> None:
    """The warning names the operation."""
    operation = "POST /answers-forgotten-early"
    Protected(operation=operation, retention=timedelta(seconds=2)).send(POST)

    check(logged, set())
    assert any(operation in record.getMessage() for record in logged)
