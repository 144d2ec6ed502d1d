"""Whatever becomes of a request or a call, nothing of its contents is logged."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import STRIPE, NotExecuted
from oncekey.errors import CallNotAnswered, StoreError
from oncekey.testing import MemoryStore
from oncekey.transitions import Reserve
from tests.support.events import load, with_body, with_header, with_key
from tests.support.function_calls import Calls
from tests.support.large_answers import LARGE, TOO_LARGE_FOR_AN_ITEM
from tests.support.protected import Protected, fails

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEY = "the-key-of-a-client-0123456789"
BODY = "what-the-client-sent"
ANSWER = "what-the-client-is-told"
TEXT = "what-an-error-says"
SECRET = "the-secret-of-the-fingerprints"
CREDENTIAL = "the-token-of-the-client"
CONTENTS = [KEY, BODY, ANSWER, TEXT, SECRET, CREDENTIAL]
CONTENTS += [LARGE[:40], TOO_LARGE_FOR_AN_ITEM[:40]]
POST = with_header(
    with_key(with_body(load("apigw_http_v2_post"), f'{{"note":"{BODY}"}}'), KEY),
    "authorization",
    f"Bearer {CREDENTIAL}",
)
OTHER = with_body(POST, f'{{"note":"{BODY}, changed"}}')
RECORD = {"id": KEY, "note": BODY}
AWAY = StoreError("away", transient=True)


class Faulty(MemoryStore):
    """A store in which all reserves, or all other writes, or reads of kept answers, fail."""

    def __init__(self) -> None:
        super().__init__()
        self.reserves = self.endings = self.answers = True

    def write(self, transition: Any) -> Any:
        """Write, or fail."""
        if not (self.reserves if isinstance(transition, Reserve) else self.endings):
            raise AWAY
        return super().write(transition)

    def fetch(self, at: Any) -> Any:
        """Fetch, or fail."""
        if not self.answers:
            raise AWAY
        return super().fetch(at)


class Http:
    """Requests to a protected handler."""

    def __init__(self, **options: Any) -> None:
        self.store = Faulty()
        self.service = Protected(store=self.store, fingerprint_secrets=[SECRET.encode()], **options)
        self.clock = self.service.clock
        self.gives(ANSWER)

    def gives(self, text: str) -> None:
        """From now on the handler answers so."""
        self.then(lambda: {"statusCode": 201, "body": text})

    def then(self, end: Callable[[], Any]) -> None:
        """From now on the handler ends so."""
        self.service.then = lambda _event, _op: end()

    def send(self, *, changed: bool = False) -> None:
        """One request; what its handler raises is its own."""
        with contextlib.suppress(ValueError, TypeError):
            self.service.send(OTHER if changed else POST)


class Function:
    """Calls of a protected function."""

    def __init__(self, **options: Any) -> None:
        self.store = Faulty()
        self.calls = Calls(
            store=self.store,
            fingerprint=lambda record: record["note"],
            fingerprint_secrets=[SECRET.encode()],
            **options,
        )
        self.clock = self.calls.clock
        self.gives(ANSWER)

    def gives(self, text: str) -> None:
        """From now on the function returns this."""
        self.then(lambda: {"said": text})

    def then(self, end: Callable[[], Any]) -> None:
        """From now on the function ends so."""
        self.calls.then = lambda _record: end()

    def send(self, *, changed: bool = False) -> None:
        """One call; what it raises is for its caller."""
        with contextlib.suppress(ValueError, TypeError, NotExecuted, CallNotAnswered):
            self.calls.call(RECORD | {"note": BODY + ", changed"} if changed else dict(RECORD))


Kind = type[Http] | type[Function]


def raises(error: Exception) -> Callable[[], Any]:
    """An end with `error`."""

    def end() -> Any:
        raise error

    return end


def created_and_replayed(kind: Kind) -> None:
    """A first answer and its replay."""
    one = kind()
    one.send()
    one.send()


def refused(kind: Kind) -> None:
    """The key with another request."""
    one = kind()
    one.send()
    one.send(changed=True)


def running(kind: Kind) -> None:
    """A repeat while the first still runs."""
    one = kind()

    def end() -> Any:
        one.gives(ANSWER)
        one.send()
        return {"statusCode": 201, "body": ANSWER}

    one.then(end)
    one.send()


def unknown(kind: Kind) -> None:
    """An attempt that raised, and a repeat."""
    one = kind()
    one.then(raises(ValueError(TEXT)))
    one.send()
    one.send()


def not_executed(kind: Kind) -> None:
    """An attempt that proves that it did nothing, and one by its author's rule."""
    one = kind(not_executed=ValueError)
    one.then(raises(NotExecuted(TEXT)))
    one.send()
    one.then(raises(ValueError(TEXT)))
    one.send()


def rule_that_fails(kind: Kind) -> None:
    """The author's rule raises with what it was asked about."""

    def rule(error: BaseException) -> bool:
        raise LookupError(str(error))

    one = kind(not_executed=rule)
    one.then(raises(ValueError(TEXT)))
    one.send()


def store_away_before(kind: Kind) -> None:
    """The key cannot be reserved."""
    one = kind()
    one.store.reserves = False
    one.send()


def store_away_after(kind: Kind) -> None:
    """The answer cannot be recorded; and then the lease is over."""
    one = kind()
    one.store.endings = False
    one.send()
    one.store.endings = True
    one.clock.advance(3_600_000)
    one.send()


def large(kind: Kind) -> None:
    """An answer that is kept beside its record: replayed, away, damaged, and missing."""
    one = kind()
    one.gives(LARGE)
    one.send()
    one.send()
    one.store.answers = False
    one.send()
    one.store.answers = True
    for name in one.store.blobs:
        one.store.blobs[name] = b"damaged"
    one.send()
    one.store.blobs.clear()
    one.send()


def not_to_be_kept(kind: Kind) -> None:
    """A result that has no stored form, and a repeat."""
    one = kind()
    one.then(lambda: {"statusCode": 201, "body": {"said": object()}, "note": ANSWER})
    one.send()
    one.send()


def damaged(kind: Kind) -> None:
    """A stored answer that cannot be read."""
    one = kind()
    one.send()
    for pk, record in one.store.records.items():
        one.store.records[pk] = replace(record, response=f'{{"{ANSWER}')
    one.send()


def ownership_lost(kind: Kind) -> None:
    """An attempt whose record was completed by somebody else while it ran."""
    one = kind()

    def end() -> Any:
        for pk, record in one.store.records.items():
            one.store.records[pk] = replace(record, operation_id="another", owner="another")
        return {"statusCode": 201, "body": ANSWER}

    one.then(end)
    one.send()


def repeatable_and_dead(kind: Kind) -> None:
    """An attempt that died, and its successor."""
    one = kind(effects="repeatable")
    one.store.endings = False
    one.send()
    one.store.endings = True
    one.clock.advance(3_600_000)
    one.send()


BOTH: dict[str, tuple[Callable[[Kind], None], set[str]]] = {
    "created and replayed": (created_and_replayed, {"reserved", "replayed"}),
    "refused": (refused, {"refused"}),
    "running": (running, {"refused"}),
    "unknown": (unknown, {"outcome-unknown", "refused"}),
    "not executed": (not_executed, {"not-executed"}),
    "rule that fails": (rule_that_fails, {"outcome-unknown"}),
    "store away before": (store_away_before, {"store-unavailable"}),
    "store away after": (store_away_after, {"answer-not-recorded", "lease-expired"}),
    "large": (large, {"replayed", "store-unavailable", "answer-unavailable"}),
    "not to be kept": (not_to_be_kept, {"answer-unavailable"}),
    "damaged": (damaged, {"reserved"}),
    "ownership lost": (ownership_lost, {"ownership-lost"}),
    "repeatable and dead": (repeatable_and_dead, {"lease-expired", "reserved"}),
}


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
        # The traceback of a handler's own error is its author's; it is looked at where it arises.
        fields = {name: value for name, value in vars(record).items() if name != "exc_info"}
        said = f"{record.getMessage()} {fields!r}"
        assert [text for text in CONTENTS if text in said] == [], said


@pytest.mark.parametrize("kind", [Http, Function], ids=["handler", "function"])
@pytest.mark.parametrize(("outcome", "events"), BOTH.values(), ids=BOTH)
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


def test_a_stored_failure_is_told_with_its_traceback_and_no_contents(
    logged: list[logging.LogRecord],
) -> None:
    """The message names the kind of error. Its traceback is the handler's own, and holds nothing
    that the handler did not put into it.
    """
    service = Protected(preset=STRIPE)
    service.then = fails(ValueError("wrong"))
    service.send(POST)

    check(logged, {"failure-stored"})
    (failure,) = [record for record in logged if record.exc_info]
    text = logging.Formatter().format(failure)
    assert "ValueError: wrong" in text
    assert [contents for contents in CONTENTS if contents in text] == []


def test_a_retention_that_is_too_short_is_told_without_the_request(
    logged: list[logging.LogRecord],
) -> None:
    """The warning names the operation."""
    operation = "POST /answers-forgotten-early"
    Protected(operation=operation, retention=timedelta(seconds=2)).send(POST)

    check(logged, set())
    assert any(operation in record.getMessage() for record in logged)
