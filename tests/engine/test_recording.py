"""How an attempt's end is recorded: how long that is tried, and who else may have been first."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import NotExecuted
from oncekey.errors import StoreError
from oncekey.record.record import Due, Record, Status
from oncekey.testing.memory import MemoryStore
from tests.support.events import load
from tests.support.protected import (
    Answer,
    Protected,
    answers,
    fails,
    headers_of,
    is_replay,
    problem_of,
    records,
)
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable

POST = load("apigw_http_v2_post")
GRACE = timedelta(seconds=60)
MINE = {"statusCode": 201, "body": "mine"}


class Failing(MemoryStore):
    """A store whose next writes of some kinds fail."""

    def __init__(self, failures: dict[str, int], *, transient: bool = True) -> None:
        super().__init__()
        self.failures = dict(failures)
        self._transient = transient

    def write(self, transition: Any) -> Any:
        """Fail, or write."""
        kind = type(transition).__name__
        if self.failures.get(kind, 0):
            self.failures[kind] -= 1
            raise StoreError("away", transient=self._transient)
        return super().write(transition)


@pytest.mark.parametrize("kind", ["Release", "Complete"])
def test_what_frees_others_is_written_as_long_as_there_is_time(kind: str) -> None:
    """A release, like a completion, is tried until the invocation's end: without it every repeat
    waits for the lease, for nothing.

    Red when it is given up after a few tries.
    """
    service = Protected(store=Failing({kind: 8}), timeout_ms=30_000)
    service.then = fails(NotExecuted()) if kind == "Release" else None

    service.send(POST)

    expected = Status.FAILED_RETRYABLE if kind == "Release" else Status.COMPLETED
    assert records(service)[0].status is expected
    assert service.store.failures == {kind: 0}


def test_a_doubt_is_not_written_at_any_price() -> None:
    """A mark that cannot be written costs its caller three tries and no more: the lease that runs
    out says the same.
    """
    service = Protected(store=Failing({"MarkUnknown": 8}), timeout_ms=30_000)
    service.then = answers(500)

    assert service.send(POST)["statusCode"] == 500
    assert records(service)[0].status is Status.IN_PROGRESS
    assert service.store.failures == {"MarkUnknown": 5}


@pytest.mark.parametrize("took_ms", [0, 3_000, 9_999])
def test_an_unknown_outcome_is_due_after_its_lease_and_the_grace(took_ms: int) -> None:
    """However soon an attempt ends in doubt: what it sent may arrive until its lease and the grace
    are over, and nobody should settle it before.

    Red when the grace counts from the end of the attempt.
    """
    service = Protected(reconcile_grace=GRACE, timeout_ms=10_000)
    began_ms = service.clock.now_ms()

    def handler(_event: object, _op: object) -> Answer:
        service.clock.advance(took_ms)
        raise ValueError

    service.then = handler
    with pytest.raises(ValueError, match="^$"):
        service.send(POST)

    (record,) = records(service)
    assert record.status is Status.UNKNOWN
    assert record.due.at_ms == began_ms + 10_000 + 5_000 + 60_000


def test_a_dead_attempt_is_due_after_its_lease_and_the_grace() -> None:
    """Whoever meets a lease that is over marks it, due when the dead owner's calls are over too.

    Red when the grace counts from the moment of the meeting.
    """
    service = Protected(store=Failing({"MarkUnknown": 1}, transient=False), reconcile_grace=GRACE)
    began_ms = service.clock.now_ms()
    service.then = answers(500)
    service.send(POST)
    assert records(service)[0].status is Status.IN_PROGRESS

    service.clock.advance(15_000 + 20_000)
    answer = service.send(POST)

    (record,) = records(service)
    assert record.status is Status.UNKNOWN
    assert record.due.at_ms == began_ms + 15_000 + 60_000
    assert problem_of(answer)[1] == "outcome-unknown"
    assert headers_of(answer)["retry-after"] == "40"


def _while_it_runs(change: Callable[[Record], Record | None]) -> tuple[Protected, Answer]:
    """An attempt whose record is changed behind its back, and the answer that its caller gets."""
    service = Protected(timeout_ms=10_000)

    def handler(_event: object, _op: object) -> Answer:
        (record,) = records(service)
        changed = change(record)
        service.store.records.clear()
        if changed is not None:
            service.store.records[record.pk] = changed
        return dict(MINE)

    service.then = handler
    return service, service.send(POST)


def _completed(record: Record, **changes: Any) -> Record:
    text = json.dumps({"statusCode": 200, "body": "another's"})
    return replace(
        record,
        status=Status.COMPLETED,
        lease_until_ms=None,
        due=None,
        completed_at_ms=record.created_at_ms,
        expires_at_s=record.created_at_ms // 1000 + 3_600,
        response=text,
        response_version=1,
        **changes,
    )


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda record: None, id="none is left"),
        pytest.param(
            lambda record: _completed(record, operation_id="another", owner="another"),
            id="another operation, complete",
        ),
        pytest.param(
            lambda record: replace(record, operation_id="another", owner="another"),
            id="another operation, running",
        ),
        pytest.param(
            lambda record: replace(
                record, operation_id="another", owner="another", status=Status.UNKNOWN
            ),
            id="another operation, unknown",
        ),
    ],
)
def test_another_operations_answer_is_no_answer_to_this_request(
    change: Callable[[Record], Record | None],
) -> None:
    """The key was free again and somebody else's by now: the caller gets what its own run did, and
    no promise of a replay; what is stored stays as it is.

    Red when the record under the key is taken for the request's own.
    """
    service, answer = _while_it_runs(change)
    after = records(service)

    assert answer["body"] == "mine"
    assert not is_replay(answer)
    assert "idempotency-expires" not in headers_of(answer)
    assert [record.operation_id for record in after] == ["another"] * len(after)


def test_what_another_owner_completed_is_the_answer() -> None:
    """A late attempt at the same operation gives the answer that everybody else gets, and says
    that it is a replay.

    Red when the late owner gives its own, or overwrites the one that is stored.
    """
    service, answer = _while_it_runs(lambda record: _completed(record, owner="another"))

    assert (answer["statusCode"], answer["body"]) == (200, "another's")
    assert is_replay(answer)
    assert service.send(POST)["body"] == "another's"
    assert len(service.runs) == 1


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status.IN_PROGRESS, "request-in-progress"),
        (Status.UNKNOWN, "outcome-unknown"),
        (Status.FAILED_RETRYABLE, "outcome-unknown"),
    ],
)
def test_a_late_owner_whose_operation_has_not_ended_says_so(status: Status, code: str) -> None:
    """Somebody else holds the operation by now, or has declared it open: this attempt's answer may
    not be its last word, and is not given.

    Red when the late owner answers as if its record had been written.
    """
    service, answer = _while_it_runs(
        lambda record: replace(
            record,
            owner="another",
            rev=record.rev + 1,
            status=status,
            due=None if status is Status.FAILED_RETRYABLE else Due(shard="1", at_ms=1),
        )
    )

    assert problem_of(answer)[1:] == (code, True)
    assert records(service)[0].status is status
