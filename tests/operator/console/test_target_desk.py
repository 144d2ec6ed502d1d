"""The console on a service's tables: it lists, settles, moves and pauses as the commands do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.record.record import Due, Status
from oncekey.record.references import reference_to
from oncekey.store.dynamodb.codec import attribute_values
from oncekey.store.dynamodb.outbox import OutboxTable, message_item
from oncekey_operator.console.console import Access, Console
from oncekey_operator.console.target_desk import TargetDesk
from oncekey_operator.messages import queues
from oncekey_operator.targets import Target
from tests.support.console_desk import TOKEN, get, post, unknown
from tests.support.dynamodb import TABLE
from tests.support.memory_outbox import waiting
from tests.support.operating import AUDIT, MESSAGES, REGION, operating, queue_with_dead_letters
from tests.support.records import NOW_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey.record.record import Record
    from tests.support.operating import Operating


DAY_MS = 86_400_000


@pytest.fixture
def service(capsys: pytest.CaptureFixture[str]) -> Iterator[Operating]:
    """The tables of a service, all empty."""
    with operating(capsys) as found:
        yield found


def console(service: Operating) -> Console:
    """A console on these tables that may change them."""
    target = Target(
        table=TABLE,
        outbox_table=MESSAGES,
        audit_table=AUDIT,
        queue_url=service.queue_url,
        region=REGION,
    )
    return Console(TargetDesk(target), Access(token=TOKEN, changes=True))


def stored(service: Operating, **changes: Any) -> Record:
    """An unknown operation in the table, in a shard of the index."""
    due = Due(shard="0", at_ms=NOW_MS)
    one = unknown(**{"status": Status.UNKNOWN, "response": None, "due": due, **changes})
    service.client.put_item(TableName=TABLE, Item=attribute_values(one))
    return one


def said(service: Operating, path: str, **query: str) -> Any:
    """What the console shows."""
    response = console(service).handle(get(path, query=query))
    assert response.status == 200, response.body
    return json.loads(response.body)


def done(service: Operating, action: str, **given: object) -> tuple[int, str]:
    """The status and the sentence of an action, for a reason."""
    body = json.dumps({"reason": "seen at the provider", **given}).encode()
    response = console(service).handle(post(f"api/{action}", body))
    return response.status, json.loads(response.body)["message"]


def listed(service: Operating, **query: str) -> list[str]:
    """The tenants of the operations that are listed."""
    return [row["tenant"] for row in said(service, "api/operations", **query)["rows"]]


def test_open_operations_are_found_by_the_index_and_all_by_a_scan(service: Operating) -> None:
    """Without "settled, too" nothing but the index is read; a part of a name filters both."""
    stored(service, tenant="acme")
    settled = {"status": Status.COMPLETED, "due": None, "completed_at_ms": NOW_MS}
    stored(service, tenant="globex", pk=f"v1#{'B' * 43}", **settled)

    assert listed(service) == ["acme"]
    assert sorted(listed(service, settled="1")) == ["acme", "globex"]
    assert listed(service, settled="1", tenant="lob") == ["globex"]
    assert listed(service, state="in-progress") == []


@pytest.mark.requirement("D15")
def test_an_operation_is_settled_and_the_audit_table_says_by_whom(service: Operating) -> None:
    """The record has the answer, the audit table two lines, and the timeline shows them.

    Red when somebody settles an operation without a trace.
    """
    one = stored(service)
    reference, answer = reference_to(one), {"statusCode": 201, "body": "{}"}

    about = {"reference": reference, "attempt": one.attempt}
    status, _ = done(service, "settle", **about, finding="completed", answer=answer)

    assert status == 200
    record = service.store.read(one.pk)
    assert record is not None
    assert record.status is Status.COMPLETED
    assert [(outcome, why) for _, outcome, why in service.audited()] == [
        ("intended", "seen at the provider"),
        ("settled", "seen at the provider"),
    ]
    events = said(service, f"api/operations/{reference}")["timeline"]
    (by, *_) = [event["detail"] for event in events if event["source"] == "audit table"]
    assert by.startswith("arn:aws:")


def test_a_failed_operation_is_ended_for_good(service: Operating) -> None:
    """The console offers it, and the record has the answer."""
    one = stored(service, status=Status.FAILED_RETRYABLE, escalated_at_ms=None)
    about = {"reference": reference_to(one), "attempt": one.attempt}
    assert said(service, f"api/operations/{reference_to(one)}")["may_end"] is True

    answer = {"statusCode": 409, "body": {"why": "withdrawn"}}
    assert done(service, "settle", **about, finding="end", answer=answer)[0] == 200

    record = service.store.read(one.pk)
    assert record is not None
    assert (record.status, record.due) == (Status.COMPLETED, None)
    assert service.audited()[-1][:2] == ("resolve: end", "settled")


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"finding": "completed", "answer": {"no": "status"}}, 400),
        ({"finding": "completed"}, 400),
        ({"finding": "not-executed", "reason": " "}, 400),
        ({"finding": "perhaps"}, 400),
    ],
)
def test_what_cannot_be_settled_is_refused(
    service: Operating, given: dict[str, Any], status: int
) -> None:
    """A wrong answer, no answer and no reason change nothing, and say what is wrong."""
    one = stored(service)

    about = {"reference": reference_to(one), "attempt": one.attempt}
    assert done(service, "settle", **about, **given)[0] == status
    assert service.store.read(one.pk) == one
    assert service.audited() == []


def test_a_running_operation_is_not_settled(service: Operating) -> None:
    """Its own attempt may still end it: the refusal says so."""
    one = stored(service, status=Status.IN_PROGRESS, lease_until_ms=2**45)

    about = {"reference": reference_to(one), "attempt": one.attempt, "looked_at": NOW_MS}
    status, sentence = done(service, "settle", **about, finding="not-executed")

    assert status == 409
    assert "may still end it" in sentence


def test_a_look_is_no_newer_than_the_pages_question(service: Operating) -> None:
    """A person who looked before the grace was over, and confirms after it, has not seen whether a
    call of the dead attempt arrived in between. A page that does not say when it asked is refused.

    Red when the time of the click on "Settle" counts as the time of the look.
    """
    one = stored(service, escalated_at_ms=None, lease_until_ms=NOW_MS)
    about = {"reference": reference_to(one), "attempt": one.attempt, "finding": "not-executed"}

    assert done(service, "settle", **about)[0] == 400
    status, sentence = done(service, "settle", **about, looked_at=NOW_MS + 1)
    assert (status, "look at the provider again" in sentence) == (409, True)
    assert service.store.read(one.pk) == one

    assert done(service, "settle", **about, looked_at=NOW_MS + DAY_MS)[0] == 200


def test_a_page_that_is_out_of_date_settles_nothing(service: Operating) -> None:
    """A finding names the attempt that the page showed, and is refused for a later one."""
    one = stored(service)

    for attempt in ({"attempt": one.attempt - 1}, {}):
        status, sentence = done(
            service, "settle", reference=reference_to(one), finding="not-executed", **attempt
        )
        assert (status, "look at it again" in sentence) == (409, True)

    assert (service.store.read(one.pk), service.audited()) == (one, [])


@pytest.mark.parametrize("status", [Status.FAILED_RETRYABLE, Status.COMPLETED])
def test_a_state_that_waits_for_nobody_is_found_by_a_scan(
    service: Operating, status: Status
) -> None:
    """The index of open records has none of them, and an empty list would say that none failed."""
    one = stored(service, status=status, due=None, escalated_at_ms=None, completed_at_ms=NOW_MS)

    assert listed(service) == []
    assert listed(service, state=status.value.lower().replace("_", "-")) == [one.tenant]


@pytest.mark.parametrize(
    ("query", "is_scanned"),
    [
        ({}, False),
        ({"state": "unknown"}, False),
        ({"settled": "1"}, True),
        ({"state": "completed"}, True),
        ({"state": "failed-retryable"}, True),
    ],
)
def test_the_page_is_told_of_a_scan(
    service: Operating, query: dict[str, str], *, is_scanned: bool
) -> None:
    """It asks every few seconds, and a scan of a deployed table costs money. It makes another one
    only when a person asks for it.
    """
    assert said(service, "api/operations", **query)["is_scanned"] is is_scanned


def test_a_state_that_there_is_not_is_no_empty_list(service: Operating) -> None:
    """Otherwise a misspelled state would say that no operation is in it."""
    stored(service)

    response = console(service).handle(get("api/operations", query={"state": "unknwon"}))

    assert (response.status, b"unknwon" in response.body) == (400, True)


# Of each member of each action's body: no value of another type is taken for one, or for none.
MISTYPED: list[Any] = [True, 1.0, 1e308, [], ["acme"], {}, {"a": 1}, [[]]]


@pytest.mark.parametrize(
    ("action", "member"),
    [
        *(("settle", name) for name in ("reference", "attempt", "finding", "step", "looked_at")),
        *(("pause", name) for name in ("kind", "name", "reason")),
        *(("resume", name) for name in ("kind", "name", "reason")),
        *(("requeue", "id"), ("requeue", "reason"), ("redrive", "queue"), ("redrive", "reason")),
    ],
)
def test_a_member_of_another_type_is_refused(
    service: Operating, action: str, member: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the page's mistake (400), and no failure of the console. Nothing is changed."""
    one = stored(service, attempt=1)
    _, service.queue_url, _ = queue_with_dead_letters()
    bodies: dict[str, dict[str, Any]] = {
        "settle": {"finding": "not-executed", "attempt": 1, "looked_at": NOW_MS},
        **{name: {"kind": "tenant", "name": "acme"} for name in ("pause", "resume")},
        "requeue": {"id": "m1"},
        "redrive": {"queue": "work"},
    }
    right = {"reference": reference_to(one), **bodies[action]}

    for wrong in MISTYPED:
        status, _ = done(service, action, **{**right, member: wrong})
        assert status == 400, (member, wrong)

    assert (service.store.read(one.pk), service.audited()) == (one, [])
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "which",
    [{"kind": "operation", "name": "POST /refunds"}, {"kind": "all", "name": "*"}],
)
def test_new_work_is_paused_and_resumed(service: Operating, which: dict[str, str]) -> None:
    """Both are on record, with the reason; what is not paused cannot be resumed."""
    assert done(service, "pause", **which)[0] == 200
    (pause,) = said(service, "api/messages")["pauses"]
    assert (pause["kind"], pause["name"]) == (which["kind"], which["name"])
    assert done(service, "resume", **which)[0] == 200
    assert done(service, "resume", **which)[0] == 409
    assert said(service, "api/messages")["pauses"] == []
    assert [action for action, *_ in service.audited()] == ["pause"] * 2 + ["resume"] * 2


def test_a_message_that_was_set_aside_is_requeued(service: Operating) -> None:
    """It waits again, and its payload is never shown."""
    one = waiting(1)
    service.client.put_item(TableName=MESSAGES, Item=message_item(one))
    OutboxTable(MESSAGES, client=service.client).set_aside(one.id, "Refused", NOW_MS)
    (before,) = said(service, "api/messages")["outbox"]
    assert (before["reason"], "payload" in before) == ("Refused", False)

    assert done(service, "requeue", id=one.id)[0] == 200
    (after,) = said(service, "api/messages")["outbox"]
    assert after["set_aside_at"] is None
    assert done(service, "requeue", id=one.id)[0] == 409


def test_dead_letters_are_delivered_again(
    service: Operating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue has them all, and its dead-letter queue has none, whatever SQS counts."""
    monkeypatch.setattr(queues, "_WAIT_S", 0)
    sqs, service.queue_url, dead = queue_with_dead_letters()
    for _ in range(3):
        sqs.send_message(QueueUrl=dead, MessageBody="{}")
    (queue,) = said(service, "api/messages")["queues"]
    assert (queue["waiting"], queue["dead_letters"]) == (0, 3)

    # SQS gives an estimate, which may be too low.
    with monkeypatch.context() as counted:
        counted.setattr(queues.DeadLetterQueue, "count", lambda _: 1)
        assert done(service, "redrive", queue="work") == (200, "Delivered again: 3 dead letters.")
    (queue,) = said(service, "api/messages")["queues"]
    assert (queue["waiting"], queue["dead_letters"]) == (3, 0)
    assert done(service, "redrive", queue="elsewhere")[0] == 400
