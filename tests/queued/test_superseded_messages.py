"""Messages that no longer speak for their operation: accepted anew, answered, expired, or gone."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import NotExecuted
from oncekey.record.record import Status
from tests.support.async_world import HOUR_MS, OTHER, POST, Accepting, accepted
from tests.support.protected import answers, fails

if TYPE_CHECKING:
    from collections.abc import Callable


def accepted_again(make: Callable[..., Accepting], **options: Any) -> Accepting:
    """A service whose first run did nothing, and whose client has sent its request again."""
    service = make(**options)
    service.send(POST)
    service.then = fails(NotExecuted())
    service.work()
    service.then = None
    service.clock.advance(1)
    accepted(service.send(POST))
    return service


def test_a_superseded_message_is_done_with(make: Callable[..., Accepting]) -> None:
    """While the operation waits under a newer message, the older one is acknowledged and changes
    nothing; the newer one runs.
    """
    service = accepted_again(make)
    first, second = service.messages
    before = service.record

    assert service.work(first) == "done"
    assert (service.record, len(service.runs)) == (before, 1)
    assert service.work(second) == "done"
    assert [op.attempt for op in service.runs] == [1, 2]


def test_a_superseded_message_is_logged_by_its_operation_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log names the operation and its id, and nothing of the request."""
    service = accepted_again(Accepting)
    caplog.clear()
    caplog.set_level("INFO", "oncekey")

    service.work(service.messages[0])

    (logged,) = caplog.records
    told = f"oncekey superseded: POST /payments {service.record.operation_id}"
    assert logged.getMessage() == f"{told}: the message is done with"
    assert vars(logged)["oncekey_event"] == "superseded"


def test_a_superseded_message_does_not_end_a_late_one(make: Callable[..., Accepting]) -> None:
    """The older message leaves even an overdue operation alone: it does not speak for it."""
    service = accepted_again(make)
    service.clock.advance(HOUR_MS)

    assert service.work(service.messages[0]) == "done"
    assert service.record.status is Status.PENDING
    assert service.work(service.messages[1]) == "done"
    assert service.send(POST)["statusCode"] == 201


def test_messages_of_what_is_answered_are_done_with(make: Callable[..., Accepting]) -> None:
    """Both are acknowledged, in any order and number, and nothing runs."""
    service = accepted_again(make)
    for message in reversed(service.messages):
        assert service.work(message) == "done"

    assert [service.work(message) for message in service.messages * 2] == ["done"] * 4
    assert len(service.runs) == 2


@pytest.mark.parametrize("next_life", ["none", "waiting", "failed", "answered"])
def test_the_message_of_an_expired_record_is_done_with(
    make: Callable[..., Accepting], next_life: str
) -> None:
    """A message that outlives its operation runs nothing: the next one under its key, in whatever
    state, is another request's.
    """
    service = make(retention=timedelta(hours=1))
    service.send(POST)
    service.perform()
    (first,) = service.messages
    service.clock.advance(HOUR_MS + 1_000)
    if next_life != "none":
        service.send(OTHER)
    if next_life == "failed":
        service.then = fails(NotExecuted())
    if next_life in {"failed", "answered"}:
        service.work()
    service.then = None
    before, runs = service.record, len(service.runs)

    assert service.work(first) == "done"
    assert (service.record, len(service.runs)) == (before, runs)


def test_the_message_of_a_record_that_is_gone_is_done_with() -> None:
    """A record that was removed is not made anew by a message."""
    service = Accepting()
    service.send(POST)
    message = service.message
    service.store.records.clear()

    assert service.work(message) == "done"
    assert (service.store.records, service.runs) == ({}, [])


def test_the_message_of_a_failed_and_expired_record_is_done_with(
    make: Callable[..., Accepting],
) -> None:
    """What failed and was forgotten is not resumed: its client would be told of another life."""
    service = make(retention=timedelta(hours=1))
    service.send(POST)
    service.then = fails(NotExecuted())
    service.work()
    service.clock.advance(29 * 24 * HOUR_MS)

    assert service.work() == "done"
    assert (len(service.runs), service.record.status) == (1, Status.FAILED_RETRYABLE)


def test_an_unfinished_run_is_superseded_only_by_its_clients_retry() -> None:
    """Deliveries alone never make a second message, however often a run does not finish."""
    service = Accepting(effects="repeatable")
    service.send(POST)
    service.then = answers(503)

    assert [service.work() for _ in range(5)] == ["JobUnfinished"] * 5
    assert (len(service.messages), [op.attempt for op in service.runs]) == (1, [1, 2, 3, 4, 5])
