"""What is logged of each event, and that it is no more than that."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from oncekey.errors import StoreError
from oncekey.telemetry import requests as telemetry
from tests.support.records import NOW_MS, record

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.record.record import Record

RECORD = record(response="what was answered", last_error="ValueError")
AWAY = StoreError("ThrottlingException", transient=True)
Event = tuple["Callable[[Record, int], None]", int, str]

EVENTS: dict[str, Event] = {
    "reserved": (telemetry.reserved, logging.DEBUG, ""),
    "replayed": (telemetry.replayed, logging.DEBUG, ""),
    "refused": (
        lambda record, now_ms: telemetry.refused("key-reused", record, now_ms),
        logging.INFO,
        ": key-reused",
    ),
    "lease-expired": (telemetry.lease_expired, logging.WARNING, ""),
    "outcome-unknown": (
        lambda record, now_ms: telemetry.outcome_unknown(record, now_ms, "ValueError"),
        logging.WARNING,
        ": ValueError",
    ),
    "not-executed": (
        lambda record, now_ms: telemetry.not_executed(record, now_ms, "NotExecuted"),
        logging.INFO,
        ": NotExecuted",
    ),
    "answer-not-recorded": (
        lambda record, now_ms: telemetry.answer_not_recorded(record, now_ms, AWAY),
        logging.ERROR,
        ": ThrottlingException",
    ),
    "answer-not-kept": (
        lambda record, now_ms: telemetry.answer_not_kept(record, now_ms, "answer-too-large"),
        logging.ERROR,
        ": answer-too-large",
    ),
    "answer-unavailable": (
        lambda record, now_ms: telemetry.answer_unavailable(record, now_ms, "it is missing"),
        logging.ERROR,
        ": it is missing",
    ),
    "ownership-lost": (telemetry.ownership_lost, logging.ERROR, ""),
}


def extras(logged: logging.LogRecord) -> dict[str, object]:
    """The fields that a log record has beyond those that every one has."""
    usual = {*vars(logging.makeLogRecord({})), "message"}
    return {name: value for name, value in vars(logged).items() if name not in usual}


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_of_a_record_is_logged_with_these_fields_and_no_other(
    caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """The name of the event, the operation, its id, its reference, the attempt, its owner, its age
    and the rest of its lease, at a level that fits; neither key nor fingerprint, tenant or answer.

    Red when a field is added, dropped or renamed, or the level is another.
    """
    tell, level, remark = EVENTS[name]
    caplog.set_level(logging.DEBUG, "oncekey")

    tell(RECORD, NOW_MS)

    (logged,) = caplog.records
    assert (logged.name, logged.levelno) == ("oncekey", level)
    assert logged.getMessage() == (
        f"oncekey {name}: POST /payments {RECORD.operation_id} attempt 3{remark}"
    )
    assert extras(logged) == {
        "oncekey_event": name,
        "operation": "POST /payments",
        "operation_id": RECORD.operation_id,
        "reference": f"v1#record.{RECORD.operation_id}",
        "attempt": 3,
        "owner": "owner-1",
        "age_ms": 90_000,
        "lease_left_ms": 1,
    }


def test_events_without_a_record_name_the_operation(caplog: pytest.LogCaptureFixture) -> None:
    """A request that reserved nothing is told by its operation alone."""
    caplog.set_level(logging.DEBUG, "oncekey")

    telemetry.unprotected("POST /payments")
    telemetry.store_unavailable("POST /payments", AWAY)

    assert [extras(logged) for logged in caplog.records] == [
        {"oncekey_event": "unprotected", "operation": "POST /payments"},
        {
            "oncekey_event": "store-unavailable",
            "kind": "outage",
            "operation": "POST /payments",
            "reason": "ThrottlingException",
        },
    ]
    assert [logged.levelno for logged in caplog.records] == [logging.INFO, logging.ERROR]


def test_what_a_request_made_the_authors_code_raise_is_told_by_its_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A selector or a rule that raises is named, with the kind of error: its text may repeat what
    the client sent.

    Red when the text of the error is logged.
    """
    caplog.set_level(logging.DEBUG, "oncekey")

    telemetry.request_not_understood("by_amount", ValueError("4242 4242 4242 4242"))
    telemetry.rule_failed("POST /payments", ValueError("4242 4242 4242 4242"))

    selector, rule = caplog.records
    assert extras(selector) == {"oncekey_event": "request-not-understood"}
    assert extras(rule) == {"oncekey_event": "rule-failed", "operation": "POST /payments"}
    for logged in (selector, rule):
        assert "ValueError" in logged.getMessage()
        assert "4242" not in logged.getMessage()
        assert logged.exc_info is None


def test_a_failure_that_becomes_an_answer_is_logged_with_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its author would never see it otherwise; kind and place are told, and not its text."""
    with pytest.raises(ValueError, match="invalid literal") as raised:
        int("4242 4242 4242 4242")

    telemetry.failure_stored("POST /payments", raised.value)

    (logged,) = caplog.records
    found = extras(logged)
    where = str(found.pop("where"))
    assert where.startswith(__file__)
    assert logged.getMessage() == f"oncekey failure-stored: POST /payments: ValueError at {where}"
    assert logged.exc_info is None
    assert found == {"oncekey_event": "failure-stored", "operation": "POST /payments"}


def test_a_retention_that_is_too_short_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Once for each operation and length, and not at every request."""
    telemetry.retention_too_short.cache_clear()

    for _ in range(3):
        telemetry.retention_too_short("POST /payments", 60)
    telemetry.retention_too_short("POST /refunds", 60)

    assert [logged.levelno for logged in caplog.records] == [logging.WARNING] * 2
    assert "POST /payments are kept for 60 s" in caplog.records[0].getMessage()
