"""Every number of a reconciler's report is of what was done."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, StillUnknown, settle
from oncekey.errors import StoreError
from oncekey.outbox.sweep import OutboxSweep, Swept
from oncekey.reconciler.report import Report
from oncekey.reconciler.settings import ReconcilerSettings
from tests.support.accepted import START_WITHIN_MS, Accepted
from tests.support.reconciled import PAID, Unrecorded, counts, knows, reconciles, wait_until_due
from tests.support.replacing import replace
from tests.support.steps import FAILED, Steps, caught, step

if TYPE_CHECKING:
    from collections.abc import Callable

LATER_MS = 300_000

pytestmark = pytest.mark.usefixtures("no_resolvers")


def unknown() -> Steps:
    """A record whose resolver knows."""
    service = Unrecorded()
    service.fails()
    knows(Completed(PAID))
    return service


def dead() -> Steps:
    """A record whose owner has died."""
    service = Unrecorded()
    service.is_killed()
    return service


def never_begun() -> Steps:
    """A record that no worker has begun in time."""
    service = Accepted(effects="unrecorded")
    service.sends()
    service.clock.advance(START_WITHIN_MS)
    return service


def half_done() -> Steps:
    """A record whose work is to be handed back."""
    service = Steps(on_abandoned="complete")
    service.sends(step("hold", "h-1"), ends=FAILED)
    return service


@pytest.mark.fault("K6.3")
@pytest.mark.parametrize("befalls", ["is_down", "rejects"])
def test_an_escalation_is_counted_and_logged_once_its_message_is_sent(
    befalls: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the queue does not take the message nobody was told, and neither the report nor the log
    says that somebody was.

    Red when an escalation is counted before its message is sent.
    """
    service = Unrecorded()
    service.fails()
    setattr(service.escalations, befalls, True)
    with pytest.raises(StoreError):
        service.reconciles()
    assert [said(entry) for entry in caplog.records if said(entry) == "escalated"] == []
    assert caplog.records[-1].__dict__["escalated"] == 0

    setattr(service.escalations, befalls, False)
    assert counts(service.reconciles()) == {"visited": 1, "escalated": 1}


@pytest.mark.fault("K6.3")
def test_a_question_that_nobody_is_asked_is_not_counted() -> None:
    """Recorded work with no step in doubt is settled without a question.

    Red when a question is counted before the resolver is asked.
    """
    service = Steps()
    service.sends(step("hold", "h-1"), caught(step("charge", raises=TimeoutError())))
    record = service.record
    service.store.records[record.pk] = replace(record, steps=record.steps.cleared())
    service.clock.advance(LATER_MS)

    report = reconciles(service, waits=False)

    assert counts(report) == {"visited": 1, "settled": 1}


@pytest.mark.fault("K6.3")
@pytest.mark.parametrize("answer", [Completed(PAID), StillUnknown(timedelta(hours=1))], ids=repr)
def test_what_somebody_settles_while_its_resolver_is_asked_is_not_still_unknown(
    answer: Any,
) -> None:
    """Such a record met somebody faster, and that alone is counted, whatever the resolver says.

    Red when a wish to be asked later counts as still unknown before it is written.
    """
    service = Unrecorded()
    service.fails()

    def meanwhile() -> Any:
        settle(service.runs[0].reference, Completed(PAID), store=service.store, clock=service.clock)
        return answer

    knows(meanwhile)

    assert counts(service.reconciles()) == {"visited": 1, "asked": 1, "overtaken": 1}


@pytest.mark.fault("K6.3")
@pytest.mark.parametrize(
    ("denied", "number", "leave"),
    [
        ("Settle", "settled", unknown),
        ("ExpireLease", "expired", dead),
        ("TimeOut", "timed_out", never_begun),
        ("commit Reschedule", "handed_back", half_done),
        ("Reschedule", "asked", unknown),
    ],
)
def test_what_is_not_written_is_not_counted(
    denied: str, number: str, leave: Callable[[], Steps], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a write is denied its number stays nothing, and the visit counts as failed.

    Red when a number grows before its write.
    """
    service, report = leave(), Report()
    service.clock.advance(LATER_MS)
    service.store.deny(denied)
    monkeypatch.setattr("oncekey.reconciler.reconciler.Report", lambda: report)

    with pytest.raises(StoreError):
        reconciles(service, waits=False)
    assert (report.failed, getattr(report, number)) == (1, 0)


def test_a_run_that_sent_messages_again_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A relay has left what the reconciler sends, so an alarm can count such runs.

    Red when a relay that sends nothing is noticed only by its messages' age.
    """
    caplog.set_level(logging.INFO, "oncekey")
    for report in (Report(visited=1), Report(resent=1)):
        report.log()

    assert [entry.levelname for entry in caplog.records] == ["INFO", "WARNING"]


def said(entry: logging.LogRecord) -> str:
    """What an entry of the log is about."""
    return str(entry.__dict__.get("oncekey_event"))


@pytest.mark.parametrize("work", ["failed", "set_aside", "resent"])
def test_a_run_that_met_what_should_not_be_is_a_warning(
    work: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also messages that a relay had left: an alarm counts how often a run sends some."""
    caplog.set_level("INFO")

    met: Any = {work: 2}
    Report(**met).log()
    Report(visited=2).log()

    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", f"oncekey reconciled: {work} 2"),
        ("INFO", "oncekey reconciled: visited 2"),
    ]


@pytest.mark.parametrize("resent", [0, 1])
def test_a_run_that_could_only_send_messages_has_done_something(resent: int) -> None:
    """A run fails if it could do nothing of what was due; a message that it sent is something. It
    sends what is older than the grace, which the relay had time for.
    """
    service = Unrecorded()
    service.fails()
    wait_until_due(service)
    service.store.refuse("read", 1_000)
    asked: list[int] = []

    class Sweeping(OutboxSweep):
        """An outbox that sends so many messages."""

        def __init__(self) -> None:
            """It has no table and no queue."""

        def run(self, **times: Any) -> Swept:
            """It notes what it was asked for."""
            asked.append(times["before_ms"])
            return Swept(resent=resent)

    turns, now_ms = ReconcilerSettings(outbox_grace_ms=70_000), service.clock.now_ms()
    if resent:
        report = reconciles(service, waits=False, outbox=Sweeping(), turns=turns)
        assert counts(report) == {"visited": 1, "failed": 1, "resent": 1}
    else:
        with pytest.raises(StoreError, match="nothing of what is due could be done"):
            reconciles(service, waits=False, outbox=Sweeping(), turns=turns)

    assert asked == [now_ms - 70_000]
