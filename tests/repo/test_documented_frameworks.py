"""The examples of the documentation that use other frameworks run, word for word."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.parser import event_parser
from pydantic import BaseModel

import oncekey
from oncekey import InProgress, idempotent_function, single_tenant
from oncekey.clock import SystemClock
from oncekey.testing import use_store
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.asgi_apps import event_loop
from tests.support.documents import run_example
from tests.support.durable import Execution, Invoked
from tests.support.dynamodb import TABLE, dynamodb_table, make_table
from tests.support.events import load, with_body, with_key, with_route, with_tenant
from tests.support.protected import Context, headers_of


def test_the_documented_fastapi_app_refunds_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The FastAPI app of the documentation, word for word: two requests, one refund; a body that is
    no refund is refused and leaves nothing; the route that is left out needs no key.
    """
    refunds: list[tuple[str, int, str]] = []

    def send_refund(order_id: str, amount: int, key: str) -> str:
        refunds.append((order_id, amount, key))
        return "re_1"

    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    signed = with_tenant(load("apigw_http_v2_post"), "acme")
    event = with_route(with_body(signed, '{"amount": 5}'), "POST", "/orders/7/refunds")
    with dynamodb_table() as client, event_loop():
        namespace = run_example(
            "layer/docs/guides/fastapi.md", "IdempotencyMiddleware", send_refund=send_refund
        )
        handler = namespace["lambda_handler"]
        refused = handler(with_body(event, '{"amount": "all"}'), None)
        written = client.scan(TableName=TABLE)["Count"]
        first, replay = (handler(event, None) for _ in range(2))
        login = handler(with_key(with_route(signed, "POST", "/login")), None)
        health = handler(with_route(load("apigw_http_v2_post"), "GET", "/health"), None)

    assert (refused["statusCode"], written) == (400, 0)
    assert json.loads(refused["body"])["status"] == 400
    assert health["statusCode"] == 200
    assert (first["statusCode"], json.loads(first["body"])) == (201, {"refund_id": "re_1"})
    assert replay["body"] == first["body"]
    assert headers_of(replay)["idempotent-replayed"] == "true"
    assert [(order, amount) for order, amount, _ in refunds] == [("7", 5)]
    assert login["statusCode"] == 200


def test_the_documented_test_of_a_fastapi_app_holds() -> None:
    """The test of the guide, word for word, on the guide's own app."""
    with event_loop():
        app = run_example(
            "layer/docs/guides/fastapi.md", "IdempotencyMiddleware", send_refund=lambda *_: "re_1"
        )
    signed = with_tenant(load("apigw_http_v2_post"), "acme")
    event = with_route(with_body(signed, '{"amount": 5}'), "POST", "/orders/7/refunds")
    run_example(
        "layer/docs/guides/fastapi.md",
        "use_store",
        lambda_handler=app["lambda_handler"],
        event=event,
    )


CONTEXT: Any = Context(ManualClock(), ManualClock().now_ms() + 7_000)


def sqs(*messages: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    """An SQS event of messages, each given by its id, its group and its body."""
    return {
        "Records": [
            {
                "messageId": message_id,
                "body": json.dumps(body),
                "attributes": {"MessageGroupId": group, "ApproximateReceiveCount": "1"},
                "eventSource": "aws:sqs",
            }
            for message_id, group, body in messages
        ]
    }


def failed_in(answer: Any) -> list[str]:
    """Which records a processor has not done with."""
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def test_the_documented_batch_ships_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that comes twice ships one order; one that fails and one without a key are
    reported and no others; one that is being worked on must wait; what failed is done at its next
    delivery, and the lease ends with the invocation.
    """
    labels: list[str] = []
    leases: list[int] = []

    def print_label(order_id: str, _key: str) -> str:
        labels.append(order_id)
        running = [r for r in client.scan(TableName=TABLE)["Items"] if "lease_until" in r]
        leases.extend(int(record["lease_until"]["N"]) for record in running)
        if labels.count("o-2") == 1 and order_id == "o-2":
            record = SQSRecord(sqs(("5", "", {"order_id": "o-2"}))["Records"][0])
            with pytest.raises(InProgress) as refused:
                namespace["on_record"](record, CONTEXT)
            assert refused.value.retryable
            raise TimeoutError
        return order_id

    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    with dynamodb_table() as client:
        namespace = run_example(
            "layer/docs/guides/batches.md", "ship order", print_label=print_label
        )
        handler = namespace["lambda_handler"]
        batch = sqs(
            ("1", "", {"order_id": "o-1"}),
            ("2", "", {"order_id": "o-1"}),
            ("3", "", {"order_id": "o-2"}),
            ("4", "", {"order_id": ""}),
        )
        before = SystemClock().now_ms()
        failures = failed_in(handler(batch, CONTEXT))
        later = failed_in(handler(sqs(("3", "", {"order_id": "o-2"})), CONTEXT))

    assert (failures, later) == (["3", "4"], [])
    assert labels == ["o-1", "o-2", "o-2"]
    assert 7_000 <= leases[0] - before < 60_000


def test_the_documented_async_batch_notifies_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are worked on at once. One that fails is reported, and runs again at its next
    delivery; the others do not.
    """
    sent: list[str] = []

    async def send_mail(order_id: str) -> None:
        sent.append(order_id)
        if sent.count(order_id) == 1 and order_id == "o-1":
            raise TimeoutError

    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    with dynamodb_table(), event_loop():
        namespace = run_example("layer/docs/guides/batches.md", '"notify"', send_mail=send_mail)
        handler = namespace["lambda_handler"]
        orders = [(str(n), "", {"order_id": f"o-{n}"}) for n in range(3)]
        failures = [failed_in(handler(sqs(*orders), CONTEXT)) for _ in range(2)]

    assert failures == [["1"], []]
    assert sorted(sent) == ["o-0", "o-1", "o-1", "o-2"]


def test_the_documented_fifo_batch_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is unknown holds up the rest of its group and no other group; once it is delivered
    again, it still fails, and nothing overtakes it.
    """
    applied: list[str] = []

    def apply(change: dict[str, str]) -> None:
        applied.append(change["change_id"])
        if change["change_id"] == "a-1":
            raise TimeoutError

    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    with dynamodb_table():
        namespace = run_example("layer/docs/guides/batches.md", "apply change", apply=apply)
        names = [("a", "a-1"), ("b", "b-1"), ("a", "a-2"), ("b", "b-2")]
        batch = sqs(*((name, group, {"change_id": name}) for group, name in names))
        failures = [failed_in(namespace["lambda_handler"](batch, CONTEXT)) for _ in range(2)]

    assert failures == [["a-1", "a-2"]] * 2
    assert applied == ["a-1", "b-1", "b-2"]


def test_the_documented_streams_are_worked_on_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda delivers all records from the failed one on again; those that were done do not run."""
    done: list[Any] = []

    def work(found: Any) -> None:
        done.append(found)
        if len(done) == 1:
            raise TimeoutError

    def reading(n: int) -> dict[str, Any]:
        data = base64.b64encode(json.dumps({"reading_id": f"r-{n}"}).encode()).decode()
        return {"kinesis": {"sequenceNumber": f"{n}", "data": data, "partitionKey": "p"}}

    def changed(n: int) -> dict[str, Any]:
        return {"dynamodb": {"SequenceNumber": f"{n}", "NewImage": {"id": {"S": f"i-{n}"}}}}

    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    with dynamodb_table():
        namespace = run_example(
            "layer/docs/guides/batches.md", "bill reading", add_to_bill=work, add_to_index=work
        )
        for name, record in (("readings_handler", reading), ("changes_handler", changed)):
            done.clear()
            event = {"Records": [record(n) for n in range(3)]}
            failures = [failed_in(namespace[name](event, CONTEXT)) for _ in range(2)]
            assert failures == [["0"], []]
            assert len(done) == 4


def test_the_documented_hand_over_charges_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hand-over of the documentation, word for word: one charge for each key, which is recorded
    in both tables; a repeat with another amount is refused.
    """
    charges: list[tuple[int, str]] = []

    def charge(amount: int, idempotency_key: str) -> str:
        charges.append((amount, idempotency_key))
        return f"ch_{len(charges)}"

    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    event = with_tenant(with_body(load("apigw_http_v2_post"), '{"amount": 5}'), "acme")
    other = with_key(event, "another-key-of-16-letters")
    with dynamodb_table() as client:
        make_table(client, "powertools-idempotency")
        namespace = run_example(
            "layer/docs/guides/migrating-from-powertools.md", "charge(", charge=charge
        )
        handler = namespace["handler"]

        first = handler(event, CONTEXT)
        replay = handler(event, CONTEXT)
        reused = handler(with_body(event, '{"amount": 6}'), CONTEXT)
        second = handler(other, CONTEXT)
        counts = [client.scan(TableName=t)["Count"] for t in (TABLE, "powertools-idempotency")]

    assert (first["body"], second["body"]) == ('{"charge_id": "ch_1"}', '{"charge_id": "ch_2"}')
    assert replay["body"] == first["body"]
    assert reused["statusCode"] == 422
    assert (len(charges), counts) == (2, [2, 2])


def test_the_documented_hand_over_of_a_batch_ships_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch of the hand-over, word for word: what the old release shipped is not shipped again;
    a record that failed is shipped at its next delivery.
    """
    labels: list[str] = []

    def print_label(body: str) -> None:
        labels.append(body)
        if labels.count(body) == 1 and "o-2" in body:
            raise TimeoutError

    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    batch = sqs(*((name, "", {"order_id": name}) for name in ("o-1", "o-2", "o-3")))
    with dynamodb_table() as client:
        make_table(client, "powertools-idempotency")
        namespace = run_example(
            "layer/docs/guides/migrating-from-powertools.md",
            "powertools_idempotent_function(",
            print_label=print_label,
        )
        ship = namespace["ship"].__wrapped__.__wrapped__
        old = namespace["powertools_idempotent_function"](
            data_keyword_argument="record",
            persistence_store=namespace["old_table"],
            config=namespace["config"],
        )
        namespace["config"].register_lambda_context(CONTEXT)
        old(ship)(record=batch["Records"][0], lambda_context=CONTEXT)
        failures = [failed_in(namespace["lambda_handler"](batch, CONTEXT)) for _ in range(2)]

    assert failures == [["o-2"], []]
    assert [json.loads(body)["order_id"] for body in labels] == ["o-1", "o-2", "o-3", "o-2"]


def test_the_documented_import_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function with Powertools' expression as its key: two events, one import."""
    imported: list[str] = []

    def import_order(body: str) -> int:
        imported.append(body)
        return len(imported)

    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    with dynamodb_table():
        namespace = run_example(
            "layer/docs/guides/migrating-from-powertools.md",
            "import order",
            import_order=import_order,
        )
        event = {"body": '{"shop": "s", "order_id": 1}'}
        results = [namespace["import_handler"](event, CONTEXT) for _ in range(2)]

    assert results == [{"imported": 1}] * 2
    assert len(imported) == 1


def test_the_documented_parsed_handler_orders_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The parsed handler of the documentation, word for word: a wrong body is refused and leaves
    nothing, other members of the body do not count, and the log line names the operation.
    """
    orders: list[int] = []

    def place_order(amount: int, _key: str) -> str:
        orders.append(amount)
        return f"order {len(orders)}"

    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    event = with_tenant(load("apigw_http_v2_post"), "acme")
    with dynamodb_table() as client:
        namespace = run_example(
            "layer/docs/guides/powertools.md", "event_parser", place_order=place_order
        )
        bodies = ('{"amount": "all"}', '{"amount": 5}', '{"amount": 5, "note": "retry"}')
        answers = [namespace["handler"](with_body(event, body), CONTEXT) for body in bodies]
        (record,) = client.scan(TableName=TABLE)["Items"]

    (line,) = [text for text in capsys.readouterr().out.splitlines() if '"ordering"' in text]
    assert [answer["statusCode"] for answer in answers] == [400, 201, 201]
    assert [answer["body"] for answer in answers[1:]] == ["order 1"] * 2
    assert orders == [5]
    assert json.loads(line)["operation_id"] == record["operation_id"]["S"]


def test_a_parsed_event_is_the_source_of_a_functions_key() -> None:
    """Below `@event_parser`, the key is an attribute of the model, as the guide says."""
    runs: list[str] = []

    class Shipped(BaseModel):
        order_id: str

    @event_parser(model=Shipped)
    @idempotent_function(
        operation="ship", key="event.order_id", tenant=single_tenant(), store=MemoryStore()
    )
    def ship(event: Shipped, context: object) -> str:
        runs.append(event.order_id)
        return event.order_id

    untyped: Any = ship
    results = [untyped({"order_id": "o-1"}, CONTEXT) for _ in range(2)]

    assert results == ["o-1"] * 2
    assert runs == ["o-1"]


def test_the_documented_durable_execution_charges_once() -> None:
    """The durable execution of the documentation, word for word: it suspends and ends with its
    charge, and a second execution for the same order gets that charge, also three days later.

    Red when the example waits for a day, and its record is kept for a day only.
    """
    charges: list[tuple[int, str]] = []

    def charge(amount: int, key: str) -> str:
        charges.append((amount, key))
        return "ch_1"

    order = '{"order_id": "o-1", "amount": 5}'
    clock = ManualClock()
    outputs = []
    with use_store(MemoryStore(), clock=clock):
        namespace = run_example(
            "layer/docs/guides/durable-executions.md", "charge_order", charge=charge
        )
        for execution in (Execution(order), Execution(order)):
            for member in ("Status", "Result"):
                context = Invoked(clock, clock.now_ms() + 7_000)
                outputs.append(execution.invoke(namespace["handler"], context)[member])
                execution.let_time_pass()
                clock.advance(36 * 3_600_000)

    assert outputs == ["PENDING", '{"charge_id": "ch_1"}'] * 2
    assert len(charges) == 1


def test_the_documented_task_retries_what_may_be_retried() -> None:
    """The state of the documentation names errors that the layer has, and that a retry may end."""
    namespace = run_example("layer/docs/guides/durable-executions.md", '"Retry"')
    retry, _ = namespace["TASK"]["Retry"]
    ours = [getattr(oncekey, name) for name in retry["ErrorEquals"]]

    assert all(error is oncekey.NotExecuted or error.retryable for error in ours)
    waits_s = [retry["IntervalSeconds"] * 2**n for n in range(retry["MaxAttempts"])]
    assert sum(waits_s) > 900  # the longest timeout of a function
