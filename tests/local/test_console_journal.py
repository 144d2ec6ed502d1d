"""What the local runtime notes of an operation for the console's timeline."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from oncekey.record.record import Status
from oncekey.telemetry import requests as telemetry
from oncekey_local.console.journal import Journal
from oncekey_local.functions.runtime_api import Outcome, OutcomeKind
from tests.support.records import record

ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
# Reserved before anything in these tests happens.
ONE = record(status=Status.COMPLETED, operation_id=ID, created_at_ms=1)


def request(*, key: str = ONE.key, tenant: str = ONE.tenant) -> bytes:
    """The event of a request with a key."""
    event = {
        "routeKey": "POST /payments",
        "headers": {"idempotency-key": key},
        "requestContext": {"authorizer": {"jwt": {"claims": {"tenant_id": tenant, "sub": "u"}}}},
        "body": '{"card": "secret"}',
    }
    return json.dumps(event).encode()


def answered(status: int, body: str = "{}", **headers: str) -> Outcome:
    """The outcome of a function that has answered."""
    answer = {"statusCode": status, "headers": headers, "body": body}
    return Outcome(kind=OutcomeKind.RESULT, payload=json.dumps(answer).encode())


PROBLEM = {"content-type": "application/problem+json"}
REFUSAL = answered(409, '{"type": "urn:oncekey:outcome-unknown"}', **PROBLEM)
REPLAY = answered(201, '{"secret": 1}', **{"Idempotent-Replayed": "true"})


@pytest.mark.parametrize(
    ("outcome", "titles"),
    [
        (answered(201), ["Answered"]),
        (answered(502), ["Answered"]),
        (REPLAY, ["Replayed"]),
        (REFUSAL, ["Refused"]),
        (Outcome(kind=OutcomeKind.DIED), ["A request arrived", "The process was killed"]),
        (Outcome(kind=OutcomeKind.TIMED_OUT), ["A request arrived", "The function timed out"]),
    ],
)
@pytest.mark.parametrize("key", [ONE.key, f'"{ONE.key}"'])
def test_a_request_is_noted_with_its_end(outcome: Outcome, titles: list[str], key: str) -> None:
    """By tenant and key, quoted or bare; and without anything that a client or handler sent."""
    journal = Journal()

    journal.end(journal.begin("payments", request(key=key)), outcome)

    events = journal.events_of(ONE)
    assert [event.title for event in events] == titles
    assert "secret" not in json.dumps([asdict(event) for event in events])


def test_a_request_that_runs_is_noted() -> None:
    """Until its outcome is there, the timeline says that it runs."""
    journal = Journal()
    journal.begin("payments", request())

    (event,) = journal.events_of(ONE)
    assert (event.title, event.detail) == ("A request arrived", "payments runs.")


@pytest.mark.parametrize("other", [{"key": "another-key-0123456789"}, {"tenant": "tenant-2"}])
def test_another_key_and_another_tenant_are_not_shown(other: dict[str, str]) -> None:
    """The same key of another tenant is another operation."""
    journal = Journal()
    journal.end(journal.begin("payments", request(**other)), answered(201))

    assert journal.events_of(ONE) == []
    assert journal.request_of(ONE) is None


@pytest.mark.parametrize(
    "item",
    [
        {"body": json.dumps({"operation_id": ID, "payload": "secret"})},
        {"dynamodb": {"NewImage": {"operation_id": {"S": ID}}}},
    ],
)
def test_a_message_and_an_item_of_a_stream_are_found_by_the_operation_id(item: Any) -> None:
    """What the relay and the worker do is a part of the operation's life."""
    journal = Journal()
    event = json.dumps({"Records": [item, {"body": "no JSON"}, "nothing"]}).encode()
    journal.end(journal.begin("worker", event), Outcome(kind=OutcomeKind.DIED))

    titles = [event.title for event in journal.events_of(ONE)]
    assert titles == ["A message arrived", "The process was killed"]


def test_an_earlier_life_of_the_key_is_not_shown() -> None:
    """After its expiry the same key is a new operation, whose timeline begins anew."""
    journal = Journal()
    journal.end(journal.begin("payments", request()), answered(201))

    assert journal.events_of(record(operation_id=ID, created_at_ms=2**45)) == []


def test_log_lines_of_the_layer_are_noted(caplog: pytest.LogCaptureFixture) -> None:
    """By the operation id; lines that a call shows anyway, and those of others, are left out."""
    journal = Journal()
    telemetry.lease_expired(ONE, 2)
    journal.line(f"[WARNING]\t2026\t{caplog.messages[-1]}")
    journal.line(f'{{"message": "oncekey settled: POST /payments {ID} attempt 2: completed"}}')
    journal.line(f"oncekey replayed: POST /payments {ID} attempt 2")
    journal.line("oncekey unprotected: POST /payments")

    assert [(event.title, event.detail) for event in journal.events_of(ONE)] == [
        ("Lease expired", "Log line of attempt 3"),
        ("Settled", "Log line of attempt 2: completed"),
    ]


# Anybody may send such messages to a queue.
BODIES = ('{"operation_id": ["x"]}', '{"operation_id": {}}', "[1]", "[" * 100_000, "9" * 5_000)
MESSAGES = [json.dumps({"Records": [{"body": body}]}).encode() for body in BODIES]


@pytest.mark.parametrize(
    "event", [b"", b"[]", b"no JSON", b'{"Records": null}', b"{}", b"[" * 100_000, *MESSAGES]
)
def test_other_events_are_passed_over(event: bytes) -> None:
    """A schedule's event, or one of another kind, is about no operation that can be told. Nothing
    that somebody sends stops the runtime.
    """
    assert Journal().begin("reconciler", event) is None


@pytest.mark.parametrize(
    "answer",
    [
        {"statusCode": 201, "headers": ["a"]},
        {"statusCode": 201, "headers": "a"},
        {"statusCode": {"a": 1}, "headers": {"content-type": 5}},
        {"statusCode": 409, "headers": PROBLEM, "body": "[" * 100_000},
    ],
)
def test_an_answer_that_is_none_hides_no_operation(answer: Any) -> None:
    """A handler under development returns anything, and the console shows its operation."""
    journal = Journal()
    outcome = Outcome(kind=OutcomeKind.RESULT, payload=json.dumps(answer).encode())

    journal.end(journal.begin("payments", request()), outcome)

    assert [event.title for event in journal.events_of(ONE)] == ["Answered"]


def test_only_the_newest_operations_are_kept() -> None:
    """The memory of a runtime that runs for days is bounded."""
    journal = Journal()
    for number in range(5_000):
        journal.line(f"oncekey settled: a {ID[:-6]}{number:06d} attempt 1")

    assert journal.events_of(record(operation_id=f"{ID[:-6]}000000", created_at_ms=1)) == []
    assert journal.events_of(record(operation_id=f"{ID[:-6]}004999", created_at_ms=1)) != []
