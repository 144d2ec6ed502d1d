"""What a function's answer says of its batch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncekey_local.events.batch_answer import judge
from oncekey_local.functions.runtime_api import Outcome, OutcomeKind

IDS = ("a", "b", "c")


def failed(payload: bytes, *, partial_answers: bool = True) -> tuple[str, ...]:
    """The ids that have failed, by an answer."""
    outcome = Outcome(kind=OutcomeKind.RESULT, payload=payload)
    return judge(outcome, IDS, partial_answers=partial_answers).failed


def failures(*items: Any) -> bytes:
    """An answer with these items."""
    return json.dumps({"batchItemFailures": list(items)}).encode()


@pytest.mark.parametrize(
    "payload",
    [b"", b"null", b"{}", b'{"batchItemFailures": null}', b'{"batchItemFailures": []}'],
)
def test_success(payload: bytes) -> None:
    """Nothing, null, and an empty or missing list of failures are a complete success."""
    assert failed(payload) == ()


def test_partial_success() -> None:
    """The named ones have failed, in the order of the batch, once each."""
    items = [{"itemIdentifier": item} for item in ("c", "a", "c")]
    assert failed(failures(*items)) == ("a", "c")


@pytest.mark.parametrize(
    "payload",
    [
        b"{",
        b"[" * 100_000,
        b'"done"',
        b"[]",
        b"3",
        b'{"batchItemFailures": {}}',
        b'{"batchItemFailures": "a"}',
        failures({"itemIdentifier": ""}),
        failures({"itemIdentifier": None}),
        failures({"itemIdentifier": 1}),
        failures({"messageId": "a"}),
        failures("a"),
        failures({"itemIdentifier": "a"}, {"itemIdentifier": "unknown"}),
    ],
)
def test_not_understood(payload: bytes) -> None:
    """An answer that Lambda does not understand, or that names another batch's, fails them all."""
    assert failed(payload) == IDS
    assert failed(payload, partial_answers=False) == ()


@pytest.mark.parametrize("partial_answers", [True, False])
@pytest.mark.parametrize("kind", [kind for kind in OutcomeKind if kind is not OutcomeKind.RESULT])
def test_no_answer(kind: OutcomeKind, partial_answers: bool) -> None:
    """A function that ends without an answer fails the whole batch, and the reason says how."""
    verdict = judge(Outcome(kind=kind), IDS, partial_answers=partial_answers)
    assert verdict.failed == IDS
    assert verdict.reason == kind.value
