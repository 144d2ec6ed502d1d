"""`mode="queued"` where work is late, fails, or its message is lost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from oncekey import (
    NotExecuted,
    StoreUnavailable,
)
from oncekey.errors import JobUnfinished
from oncekey.record.record import Status
from tests.support.accepted import START_WITHIN_MS, Accepted
from tests.support.protected import is_replay, problem_of
from tests.support.replacing import replace
from tests.support.steps import CREATED, FAILED, POST, FaultyStore, step


@pytest.mark.requirement("B10")
@pytest.mark.parametrize("met_by", ["the client", "the worker"])
def test_what_no_worker_began_in_time_ends_as_a_stored_408(met_by: str) -> None:
    """After its deadline a pending request is answered 408 for good, and no worker begins it.

    Red when the late message is begun, or the 408 is not stored.
    """
    service = Accepted()
    service.sends()
    service.clock.advance(START_WITHIN_MS)

    if met_by == "the worker":
        service.works()
    answers = [service.send(POST), service.send(POST)]
    service.works()

    assert [problem_of(answer) for answer in answers] == [(408, "not-started-in-time", False)] * 2
    assert all(map(is_replay, answers))
    assert service.runs == []
    assert service.record.status is Status.COMPLETED


def test_a_record_of_a_release_without_policies_is_timed_out_by_the_handlers_own() -> None:
    """What an earlier release accepted ends like any other, and is stored for as long."""
    service = Accepted()
    service.sends()
    service.store.records[service.record.pk] = replace(service.record, policy=None)
    service.clock.advance(START_WITHIN_MS)

    answers = [service.send(POST), service.send(POST)]

    assert [problem_of(answer) for answer in answers] == [(408, "not-started-in-time", False)] * 2
    assert all(map(is_replay, answers))


def test_what_times_out_is_stored_as_it_was_accepted() -> None:
    """A release that changes the retention or the version of its answers ends what was accepted
    before by what held then.

    Red when a time-out goes by the options of whoever finds it.
    """
    service = Accepted(retention=timedelta(days=2), response_version=3)
    service.sends()
    later = service.another_sandbox(retention=timedelta(days=1), response_version=4)
    later.clock.advance(START_WITHIN_MS)
    later.send(POST)

    record = service.record
    assert (record.status, record.response_version) == (Status.COMPLETED, 3)
    assert record.expires_at_s == -(-later.clock.now_ms() // 1000) + 2 * 86_400


@pytest.mark.parametrize("effects", ["repeatable", "recorded"])
@pytest.mark.parametrize("fails", [NotExecuted("not now"), TimeoutError("no answer")], ids=str)
def test_what_was_begun_once_is_never_timed_out(effects: str, fails: Exception) -> None:
    """After a worker has run it, a late request is sent off anew by its retry, and worked on.

    Nobody knows what an idempotent step did before it was interrupted: a 408 that says "nothing was
    done" could make a client pay twice. The message that was lost is void.
    """
    charged: list[str] = []

    def charge(_: object, op: Any) -> None:
        charged.append(op.operation_id)

    service = Accepted(effects=effects)
    service.sends(charge, ends=fails)
    with pytest.raises(type(fails)):
        service.works()
    assert service.send(POST)["statusCode"] == 202
    lost = service.messages[-1]
    service.clock.advance(START_WITHIN_MS + 1)

    late = service.send(POST)
    service.handles(charge)
    service.works(lost)
    service.works()

    assert late["statusCode"] == 202
    assert len(service.messages) == 3
    assert charged == [service.record.operation_id] * 2
    assert service.send(POST)["statusCode"] == 201


def test_half_done_work_whose_message_is_lost_goes_on() -> None:
    """However late, a retry sends half-done work off anew; its finished steps are not redone."""
    service = Accepted()
    service.sends(step("charge", "ch_1"), ends=FAILED)
    with pytest.raises(JobUnfinished):
        service.works()
    service.send(POST)
    service.clock.advance(START_WITHIN_MS * 24 * 40)

    assert service.send(POST)["statusCode"] == 202
    service.handles(step("charge", "ch_2"))
    service.works()

    assert (service.ran, service.given[-1]) == (["charge"], "ch_1")
    assert service.send(POST)["statusCode"] == 201


def test_a_dead_attempt_that_is_not_accepted_anew_keeps_its_evidence() -> None:
    """Where the retry dies between its two writes, half-done work has no expiry, and is due."""
    service = Accepted()
    service.sends(step("charge", "ch_1"))
    service.store.refuse("Complete", 99)
    service.store.refuse("commit Complete", 99)
    service.store.refuse("Release", 99)
    with pytest.raises(StoreUnavailable):
        service.works()
    service.store.recovers()
    service.lets_the_lease_run_out()
    service.clock.advance(60_000)
    service.store.refuse("commit Enqueue", 99)

    assert service.send(POST)["statusCode"] == 503
    assert service.record.status is Status.FAILED_RETRYABLE
    assert service.record.expires_at_s is None
    assert service.record.due is not None


def test_failed_work_lives_as_long_as_its_message_may() -> None:
    """A dead letter that is redriven weeks later still finds its request, and carries it out."""
    service = Accepted()
    service.sends(ends=NotExecuted("not now"))
    with pytest.raises(NotExecuted):
        service.works()
    service.clock.advance(28 * 24 * 3_600_000)

    service.handles()
    service.works()

    assert service.send(POST)["statusCode"] == 201


def test_waiting_does_not_send_it_off_again() -> None:
    """With `in_progress="wait"` one request publishes one message, however often the work fails."""

    class Working(FaultyStore):
        def read(self, pk: str) -> Any:
            record = super().read(pk)
            if record.status is Status.PENDING and not is_at_work:
                is_at_work.append(True)
                with pytest.raises(JobUnfinished):
                    service.works()
                is_at_work.clear()
                return super().read(pk)
            return record

    is_at_work: list[bool] = []
    service = Accepted(in_progress="wait", effects="repeatable", store=Working())

    answer = service.sends(ends=FAILED)

    assert answer["statusCode"] == 202
    assert len(service.messages) == 1


def test_what_is_accepted_is_not_logged_as_refused(caplog: pytest.LogCaptureFixture) -> None:
    """The first 202 is an acceptance in the log, and the second a refusal."""
    service = Accepted()
    with caplog.at_level("DEBUG", "oncekey"):
        service.sends()
        first = [
            record.oncekey_event for record in caplog.records if hasattr(record, "oncekey_event")
        ]
        service.sends()

    assert first == ["accepted"]
    assert [record.levelname for record in caplog.records][-1] == "INFO"


@pytest.mark.parametrize(
    "call", ["commit Reserve", "commit Enqueue", "Begin", "TimeOut", "Complete"]
)
def test_a_lost_answer_changes_nothing(call: str) -> None:
    """Each write of the way is applied and its answer lost: one message an attempt, one run, and
    the true answer.
    """
    service = Accepted()
    service.store.lose(call)

    first = service.sends(ends=NotExecuted("not now") if call == "commit Enqueue" else CREATED)
    if call == "commit Enqueue":
        with pytest.raises(NotExecuted):
            service.works()
        service.handles()
        assert service.send(POST)["statusCode"] == 202
    if call == "TimeOut":
        service.clock.advance(3_600_001)
    service.works()
    last = service.send(POST)

    assert first["statusCode"] == 202
    assert last["statusCode"] == (408 if call == "TimeOut" else 201)
    assert len(service.messages) == (2 if call == "commit Enqueue" else 1)
    assert len({message.id for message in service.messages}) == len(service.messages)


def test_a_store_that_is_down_leaves_the_message() -> None:
    """Where the store does not answer, the delivery fails and nothing runs; the next one does."""
    service = Accepted()
    service.sends()
    service.store.refuse("read", 99)

    with pytest.raises(StoreUnavailable):
        service.works()
    service.store.recovers()
    service.clock.advance(60_000)
    service.works()

    assert len(service.runs) == 1
