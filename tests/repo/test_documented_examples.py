"""The examples of the documentation run, word for word."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from oncekey import Completed, NotExecuted, Question, StillUnknown
from oncekey.clock import SystemClock
from oncekey.outbox.envelope import sealed
from oncekey.record.message import Message
from oncekey.settlement import resolvers
from oncekey.store.dynamodb.outbox import message_from_item
from tests.support.documents import run_example
from tests.support.dynamodb import TABLE, dynamodb_table, make_table
from tests.support.events import load, with_header, with_route, with_tenant
from tests.support.protected import headers_of
from tests.support.webhooks import SENDERS, event_with


@pytest.mark.fault("K12.6")
@pytest.mark.parametrize(
    ("page", "mark", "name"),
    [
        ("layer/docs/guides/recorded-effects.md", "POST /rides", "ride"),
        ("layer/docs/guides/queued-work.md", "POST /reports", "create_report"),
    ],
)
def test_the_other_documented_handlers_refuse_what_is_no_json(
    page: str, mark: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No example accepts a body that is no JSON, to fail at it later.

    Red when one takes the key, or leaves a message that no worker can read.
    """
    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    monkeypatch.setenv("ONCEKEY_OUTBOX_TABLE", "outbox")
    with dynamodb_table() as client:
        namespace = run_example(page, mark)
        order = with_tenant(load("apigw_http_v2_post"), "acme")
        answer = namespace[name]({**order, "body": "no JSON", "isBase64Encoded": False}, None)
        written = client.scan(TableName=TABLE)["Count"]

    assert (answer["statusCode"], written) == (400, 0)


def test_the_documented_ride_is_ordered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorded handler of the documentation, word for word.

    Two requests make one ride, take one seat, charge once and leave one message; where no seat is
    left the answer is a 409, which is stored.
    """
    charges = []

    def charge(amount: int, *, idempotency_key: str) -> str:
        charges.append((amount, idempotency_key))
        return "ch_1"

    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    monkeypatch.setenv("ONCEKEY_OUTBOX_TABLE", "outbox")
    with dynamodb_table() as client:
        for table in ("rides", "seats", "outbox"):
            make_table(client, table)
        client.put_item(TableName="seats", Item={"id": {"S": "car-7"}, "seats_left": {"N": "1"}})
        namespace = run_example(
            "layer/docs/guides/recorded-effects.md", "POST /rides", charge=charge
        )
        event = with_tenant(load("apigw_http_v2_post"), "acme")
        event["body"], event["isBase64Encoded"] = '{"car": "car-7", "amount": 1200}', False
        first, replay = (namespace["ride"](event, None) for _ in range(2))
        other = with_header(event, "idempotency-key", "another-key-of-16-letters")
        full, full_again = (namespace["ride"](other, None) for _ in range(2))
        rides, outbox, seats = (
            client.scan(TableName=table)["Items"] for table in ("rides", "outbox", "seats")
        )

    assert (first["statusCode"], full["statusCode"]) == (201, 409)
    assert (replay["body"], full_again["body"]) == (first["body"], full["body"])
    ride_id = json.loads(first["body"])["ride_id"]
    ride = {"id": {"S": ride_id}, "state": {"S": "ordered"}, "charge_id": {"S": "ch_1"}}
    assert rides == [ride]
    assert [item["topic"]["S"] for item in outbox] == ["ride.ordered"]
    assert seats == [{"id": {"S": "car-7"}, "seats_left": {"N": "0"}}]
    assert len(charges) == 1


def test_the_documented_resolver_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The resolver of the documentation, word for word, gives each of its three answers."""
    found: dict[str, Any] = {"sent": {"id": "tr_1", "state": "sent"}}
    found["slow"] = {"id": "tr_2", "state": "processing"}
    monkeypatch.setattr(resolvers, "_resolvers", {})
    run_example("layer/docs/guides/recorded-effects.md", "POST /transfers", look_up=found.get)
    resolve = resolvers.resolver_of("POST /transfers", "send")
    assert resolve is not None

    answers = [resolve(question(operation_id)) for operation_id in ("sent", "slow", "none")]

    assert answers[:2] == [Completed("tr_1"), StillUnknown(timedelta(minutes=5))]
    assert isinstance(answers[2], NotExecuted)


def question(operation_id: str) -> Question:
    """What a resolver is asked about one operation."""
    return Question(
        operation="POST /transfers",
        operation_id=operation_id,
        step="send",
        downstream_key="",
        tenant="acme",
        principal="",
        key="",
        attempt=1,
        started_at_ms=0,
    )


def test_the_documented_message_is_worked_on_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The relay and the worker of the documentation, word for word.

    A message that the queue delivers twice is worked on once; what fails, or is being worked on, is
    reported, and what has failed runs again.
    """
    announced: list[str] = []
    meanwhile: list[dict[str, Any]] = []

    def announce(ride_id: str) -> str:
        announced.append(ride_id)
        if ride_id == "ride-2" and not meanwhile:
            # It is delivered again while it is worked on, and then fails.
            meanwhile.append(worker([received("5", "ride-2")]))
            raise TimeoutError
        return ride_id

    def worker(records: list[dict[str, Any]]) -> dict[str, Any]:
        answer: dict[str, Any] = namespace["worker_handler"]({"Records": records}, None)
        return answer

    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    with dynamodb_table():
        namespace = run_example(
            "layer/docs/guides/queued-work.md", "ride.ordered", announce=announce
        )
        twice = [received("1", "ride-1"), received("2", "ride-1")]
        answer = worker([*twice, {**received("3", ""), "body": "odd"}, received("4", "ride-2")])
        again = worker([received("4", "ride-2")])

    assert announced == ["ride-1", "ride-2", "ride-2"]
    assert failed_in(answer) == ["3", "4"]
    assert [failed_in(each) for each in meanwhile] == [["5"]]
    assert failed_in(again) == []


def received(message_id: str, ride_id: str) -> dict[str, Any]:
    """A record of the queue with the message about one ride."""
    return {
        "messageId": message_id,
        "receiptHandle": "handle",
        "attributes": {"ApproximateReceiveCount": "1"},
        "body": sealed(ride_message(ride_id)),
    }


def failed_in(answer: dict[str, Any]) -> list[str]:
    """Which messages a worker has not done with."""
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def ride_message(ride_id: str) -> Message:
    """A message about one ride."""
    return Message(
        id=f"message of {ride_id}",
        topic="ride.ordered",
        payload=json.dumps({"ride_id": ride_id}),
        operation_id="0f8fad5b-d9cb-469f-a165-70867728950e",
        operation="POST /rides",
        tenant="acme",
        created_at_ms=0,
    )


def test_the_documented_function_books_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function of the documentation, word for word: two calls, one booking, one result."""
    booked = []

    def book(invoice_id: str, total: Decimal) -> Decimal:
        booked.append(invoice_id)
        return total

    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    with dynamodb_table():
        namespace = run_example("layer/docs/guides/functions.md", "settle invoice", book=book)
        invoice = {"invoice_id": "in_1", "total": "12.50"}
        results = [namespace["settle"](invoice) for _ in range(2)]

    assert results == [Decimal("12.50")] * 2
    assert booked == ["in_1"]


def test_the_documented_report_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The long work of the documentation, word for word.

    Two requests are told of one operation; its message, delivered twice, makes one report; then the
    operation says where it is, and a third request gets the stored answer.
    """
    compiled: list[Any] = []

    def compile_report(asked: Any) -> str:
        compiled.append(asked)
        return "42"

    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    monkeypatch.setenv("ONCEKEY_OUTBOX_TABLE", "outbox")
    with dynamodb_table() as client:
        for table in ("reports", "outbox"):
            make_table(client, table)
        namespace = run_example(
            "layer/docs/guides/queued-work.md", "POST /reports", compile_report=compile_report
        )
        event = with_tenant(load("apigw_http_v2_post"), "acme")
        accepted = [namespace["create_report"](event, None) for _ in range(2)]
        (item,) = client.scan(TableName="outbox")["Items"]
        record = {"messageId": "1", "body": sealed(message_from_item(item))}
        worked = [namespace["reports_worker"]({"Records": [record]}, None) for _ in range(2)]
        operation_id = json.loads(accepted[0]["body"])["operation_id"]
        asked = with_route(event, "GET", f"/operations/{operation_id}")
        asked["pathParameters"] = {"operation_id": operation_id}
        status = json.loads(namespace["status_handler"](asked, None)["body"])
        replay = namespace["create_report"](event, None)

    assert [answer["statusCode"] for answer in accepted] == [202, 202]
    assert accepted[0]["body"] == accepted[1]["body"]
    assert (worked, len(compiled)) == ([{"batchItemFailures": []}] * 2, 1)
    assert status["answer"] == {"status": 201, "location": f"/reports/{operation_id}"}
    assert (replay["statusCode"], replay["body"]) == (201, "42")


def test_the_documented_route_refunds_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Powertools app of the documentation, word for word: two requests, one refund."""
    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    event = with_route(
        with_tenant(load("apigw_http_v2_post"), "acme"),
        "POST",
        "/orders/7/refunds",
        resource="/orders/{order_id}/refunds",
    )
    with dynamodb_table():
        namespace = run_example("layer/docs/guides/powertools.md", "idempotent_route")
        first, replay = (namespace["lambda_handler"](event, None) for _ in range(2))

    assert json.loads(first["body"])["order_id"] == "7"
    assert replay["body"] == first["body"]
    assert headers_of(replay)["idempotent-replayed"] == "true"


def test_the_documented_webhook_publishes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The documented webhook: an event sent twice is one message, one of another type leaves
    nothing, and one that is not signed is refused.
    """
    sender = SENDERS["stripe"]
    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    monkeypatch.setenv("ONCEKEY_OUTBOX_TABLE", "outbox")
    monkeypatch.setenv("ONCEKEY_WEBHOOK_SECRET", sender.secret.decode())

    def sent(kind: str, secret: bytes = sender.secret) -> dict[str, Any]:
        body = b'{"id": "evt_1", "type": "%s", "data": {"object": {"id": "pi_1"}}}' % kind.encode()
        now_s = SystemClock().now_ms() // 1000
        return event_with(sender.headers(secret, body, "", now_s), body)

    with dynamodb_table() as client:
        make_table(client, "outbox")
        namespace = run_example("layer/docs/guides/webhooks.md", "StripeSignature()")
        handler = namespace["stripe_events"]
        forged = handler(sent("payment_intent.succeeded", sender.other_secret), None)
        other = handler(sent("customer.created"), None)
        answers = [handler(sent("payment_intent.succeeded"), None) for _ in range(2)]
        (item,) = client.scan(TableName="outbox")["Items"]

    assert [forged["statusCode"], other["statusCode"]] == [400, 200]
    assert [json.loads(answer["body"])["status"] for answer in answers] == ["accepted", "repeat"]
    assert json.loads(message_from_item(item).payload) == {"payment_intent": "pi_1"}


def test_the_documented_ledgers_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """The comparison of the documentation, word for word, finds one difference of each kind."""
    ours = [
        {"id": "b", "amount": 2, "iban": "x"},
        {"id": "a", "amount": 1, "iban": "x"},
        {"id": "d", "amount": 4, "iban": "x"},
    ]
    theirs = [
        {"payment_id": "d", "amount": 4, "iban": "x"},
        {"payment_id": "c", "amount": 3, "iban": "x"},
        {"payment_id": "b", "amount": 5, "iban": "y"},
    ]

    namespace = run_example(
        "layer/docs/guides/ledger.md",
        "compare_ledgers(",
        rows=lambda: ours,
        charges=lambda: theirs,
    )

    assert namespace["findings"] == [
        "a is missing at the provider",
        "b differs in amount: 2, not 5; iban: (hidden), not (hidden)",
        "c is missing in our table",
    ]
    assert capsys.readouterr().out == (
        "LedgerTotals(equal=1, different=1, only_ours=1, only_theirs=1)\n"
    )


def test_the_documented_page_is_let_in() -> None:
    """The documented `Cors` lets the page of the documentation send a key."""
    namespace = run_example("layer/docs/guides/clients.md", "CORS = Cors(")

    headers = namespace["CORS"].preflight_headers("https://shop.example")

    assert headers["Access-Control-Allow-Origin"] == "https://shop.example"
    assert "Idempotency-Key" in headers["Access-Control-Allow-Headers"]
