"""What an accepted request leaves for a worker, and what the worker reads of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncekey.envelope import EnvelopeUnreadable, sealed, unsealed
from oncekey.errors import RequestRefused
from oncekey.job import Job, event_text, message_of, task_of
from oncekey.operation_pointer import pointer_from
from tests.support.records import NOW_MS, record


@pytest.mark.parametrize(
    "header",
    ["Authorization", "AUTHORIZATION", "Proxy-Authorization", "cookie", "X-Api-Key"],
)
@pytest.mark.parametrize("field", ["headers", "multiValueHeaders"])
def test_credentials_are_left_out_however_they_are_spelt(header: str, field: str) -> None:
    """No header that proves who the caller is gets into the text; the others do."""
    event = {field: {header: "secret", "Idempotency-Key": "key"}, "body": "b"}

    kept = json.loads(event_text(event, has_bucket=False))

    assert kept == {field: {"Idempotency-Key": "key"}, "body": "b"}


@pytest.mark.parametrize("event", [{}, {"headers": None}, {"requestContext": {"identity": None}}])
def test_an_event_without_headers_is_kept_as_it_is(event: dict[str, Any]) -> None:
    """What is not there need not be left out."""
    assert json.loads(event_text(event, has_bucket=False)) == event


def test_an_event_too_large_is_refused_without_a_bucket() -> None:
    """The bound is the message's, with room for what stands beside the event."""
    limit = 200_000 - 1_000
    fits = {"body": "x" * (limit - len('{"body":""}'))}

    assert len(event_text(fits, has_bucket=False)) == limit
    with pytest.raises(RequestRefused, match="too large"):
        event_text({"body": fits["body"] + "x"}, has_bucket=False)
    assert event_text({"body": fits["body"] + "x"}, has_bucket=True)


def test_a_message_brings_back_its_task() -> None:
    """Record, acceptance and event come out of the queue as they went in."""
    job = Job(event=event_text({"body": "\ud800 ü"}, has_bucket=False))
    waiting = record(attempt=2)

    message = message_of(job, waiting, NOW_MS)
    received = unsealed(sealed(message))
    task = task_of(json.loads(received.payload), received.operation_id)

    assert message.payload.isascii()
    assert (task.pk, task.owner) == (waiting.pk, waiting.owner)
    assert (task.operation_id, task.event) == (waiting.operation_id, {"body": "\ud800 ü"})
    assert message.id != message_of(job, record(attempt=3), NOW_MS).id
    assert message.id == message_of(job, waiting, NOW_MS + 1).id


@pytest.mark.parametrize(
    "payload", [None, 1, "x", [], {}, {"record": "r", "owner": "o", "event": 1}]
)
def test_a_payload_that_is_no_task_is_unreadable(payload: object) -> None:
    """Anything else is said to be none, without a word of what it holds."""
    with pytest.raises(EnvelopeUnreadable, match="tells of no accepted request"):
        task_of(payload, "operation")


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"pk": "v1#x"}', b"1"])
def test_a_pointer_that_is_none_leads_nowhere(data: bytes) -> None:
    """What cannot be read as a pointer is none, rather than an error."""
    assert pointer_from(data) is None


def test_an_event_is_not_shown_by_its_job() -> None:
    """Neither a job nor its message shows the event in a traceback or a log."""
    job = Job(event='{"body":"secret"}')

    assert "secret" not in repr(job)
    assert "secret" not in repr(message_of(job, record(), NOW_MS))
