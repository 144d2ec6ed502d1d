"""The mistakes of the page layer/docs/reference/errors.md, each made as its author would make it.

Each one registers the text that its author is told. The page lists the same texts, with the cause
and the remedy, for whoever looks a message up.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.utilities.parser import event_parser
from pydantic import BaseModel

from oncekey import DynamoDBStore, Operation, idempotent, idempotent_function, jwt_claim
from oncekey.outbox import Worker
from oncekey.powertools import idempotent_route
from oncekey.testing import MemoryStore
from tests.support.documents import rows, text_of
from tests.support.dynamodb import dynamodb_table, store_on
from tests.support.events import load, with_route
from tests.support.mistakes import (
    TENANT,
    Made,
    Mistakes,
    answered,
    function,
    handler,
    table_without_index,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

POST = load("apigw_http_v2_post")
BATCH = {"Records": [{"messageId": "1", "body": "{}", "eventSource": "aws:sqs"}]}
DECORATED = Mistakes("## When a module is loaded")
CALLED = Mistakes("## At a call")
LOGGED = Mistakes("## In the log")


class Order(BaseModel):
    """What a function is called with."""

    order_id: str


@DECORATED.told("it was given what it decorates: write @idempotent(operation=")
def _without_brackets() -> None:
    idempotent(handler)  # type: ignore[call-arg, arg-type]


@DECORATED.told("tenant is missing: say whose key it is")
def _without_a_tenant() -> None:
    idempotent(operation="POST /a")  # type: ignore[call-arg]


@DECORATED.told("tenant is no source, but a text, the same for everybody")
def _the_tenant_is_a_name() -> None:
    idempotent(operation="POST /a", tenant="acme")  # type: ignore[arg-type]


@DECORATED.told("a source is called where it is given: jwt_claim('tenant_id')")
def _the_source_is_not_called() -> None:
    idempotent(operation="POST /a", tenant=jwt_claim)  # type: ignore[arg-type]


@DECORATED.told("retentions is no option (did you mean retention?)")
def _a_misspelt_option() -> None:
    idempotent(operation="POST /a", tenant=TENANT, retentions=timedelta(1))  # type: ignore[call-arg]


@DECORATED.told("retention is 3600: a timedelta is needed, such as timedelta(seconds=3600)")
def _seconds_for_a_duration() -> None:
    idempotent(operation="POST /a", tenant=TENANT, retention=3600)  # type: ignore[arg-type]


@DECORATED.told("not_executed is an async function, which nobody awaits")
def _an_async_rule() -> None:
    async def was_refused(error: BaseException) -> bool:
        return isinstance(error, LookupError)

    idempotent(operation="POST /a", tenant=TENANT, not_executed=was_refused)  # type: ignore[arg-type]


@DECORATED.told("effects is 'record' (did you mean recorded?)")
def _an_unknown_kind_of_effects() -> None:
    idempotent(operation="POST /a", tenant=TENANT, effects="record")


@DECORATED.told("a handler takes event and context, and op as a third if it wants it")
def _a_handler_of_the_event_alone() -> None:
    decorator: Any = idempotent(operation="POST /a", tenant=TENANT)
    decorator(lambda event: event)


@DECORATED.told("op takes the operation: make it the third, without a default")
def _a_handler_of_the_event_and_the_operation() -> None:
    decorator: Any = idempotent(operation="POST /a", tenant=TENANT)
    decorator(lambda event, op: event)


@DECORATED.told("a class is decorated: decorate the function or method that does the work")
def _a_class() -> None:
    idempotent(operation="POST /a", tenant=TENANT)(Order)  # type: ignore[arg-type]


@DECORATED.told("a method is decorated where it is bound: idempotent(...)(instance.method)")
def _a_method() -> None:
    class Service:
        @idempotent(operation="POST /a", tenant=TENANT)
        def handle(self, event: object, context: object) -> None:
            """Decorated where nothing is bound yet."""


@DECORATED.told("a generator has no answer to store: return one")
def _a_generator() -> None:
    def handle(event: object, context: object) -> Any:
        yield event

    idempotent(operation="POST /a", tenant=TENANT)(handle)


@DECORATED.told("it is decorated twice: its key would be in use whenever it is asked for")
def _decorated_twice() -> None:
    decorator = idempotent(operation="POST /twice", tenant=TENANT)
    decorator(decorator(handler))


@DECORATED.told("each would be given the other's answers, so name one of them otherwise")
def _two_handlers_with_one_name() -> None:
    def pay(event: object, context: object) -> None: ...
    def refund(event: object, context: object) -> None: ...

    kept = idempotent(operation="POST /shared", tenant=TENANT)(pay)
    idempotent(operation="POST /shared", tenant=TENANT)(refund)
    kept({}, None)


@DECORATED.told("op takes the operation, which callers do not give: put it last")
def _the_operation_first() -> None:
    @function(key="id")
    def work(op: Operation, record: dict[str, str]) -> None: ...


@DECORATED.told("key='order_id': 'order_id' is none of the parameters order, context")
def _a_key_that_is_no_parameter() -> None:
    @function(key="order_id")
    def work(order: dict[str, str], context: object) -> None: ...


@DECORATED.told("tenant reads the context of an HTTP request, which a function does not get")
def _a_claim_for_a_functions_tenant() -> None:
    idempotent_function(operation="f", key="id", tenant=jwt_claim("tenant_id"))


@CALLED.told("ONCEKEY_RETENTIONS is no variable of oncekey: did you mean ONCEKEY_RETENTION_S?")
def _a_misspelt_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEKEY_RETENTIONS", "60")
    answered(POST)


@CALLED.told("ONCEKEY_RETENTION_S is '24h': a whole number is needed")
def _a_unit_in_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEKEY_RETENTION_S", "24h")
    answered(POST)


@CALLED.told("ONCEKEY_TABLE is not set: name the idempotency table")
def _without_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONCEKEY_TABLE", raising=False)
    idempotent(operation="POST /a", tenant=TENANT)(handler)(POST, None)


@CALLED.told("but a batch of SQS messages: protect the function of one of them")
def _messages_for_an_http_handler() -> None:
    answered(BATCH)


@CALLED.told("in a batch of SQS messages: call the function for each of them")
def _a_batch_for_a_function_of_one_message() -> None:
    @function(key="messageId")
    def work(record: Any) -> None: ...

    work(BATCH)


@CALLED.told("its event is an HTTP request: its event source must be an SQS queue")
def _a_request_for_a_worker() -> None:
    Worker(lambda _record, _context: None)(POST, None)


@CALLED.told("in an HTTP request: protect its handler by @idempotent")
def _a_request_for_a_function() -> None:
    @function(key="messageId")
    def work(record: Any) -> None: ...

    work(POST)


@CALLED.told("the fields of Order are order_id (did you mean order_id?)")
def _a_field_that_the_model_does_not_have() -> None:
    @function(key="orderId")
    def work(order: Order) -> None: ...

    work(Order(order_id="1"))


@CALLED.told("no expression looks into a SimpleNamespace, so pass key=lambda it: it.id")
def _a_key_in_an_object() -> None:
    @function(key="id")
    def work(order: SimpleNamespace) -> None: ...

    work(SimpleNamespace(id="1"))


@CALLED.told("in a str: to take the argument itself as the key, write key='@'")
def _a_key_that_is_the_parameters_name() -> None:
    @function(key="invoice_id")
    def work(invoice_id: str) -> None: ...

    work("inv-1")


@CALLED.told("give str(...) of its id, which is the same in a repeat")
def _a_key_that_is_an_object() -> None:
    @function(key=lambda record: object())
    def work(record: str) -> None: ...

    work("a")


@CALLED.told("found nothing but blanks and nulls")
def _a_key_that_is_none() -> None:
    @function(key=lambda record: None)
    def work(record: str) -> None: ...

    work("a")


@CALLED.told("finds nobody in the arguments")
def _a_tenant_that_is_none() -> None:
    @function(key="@", tenant=lambda record: None)
    def work(record: str) -> None: ...

    work("a")


@CALLED.told("fingerprint: must select a JSON value, or dates, UUIDs, models and the like")
def _a_fingerprint_that_is_an_object() -> None:
    answered(POST, fingerprint=lambda request: request)


@CALLED.told("an HTTP event is a dict, not APIGatewayProxyEvent: write @idempotent above")
def _the_event_is_parsed_before() -> None:
    class APIGatewayProxyEvent(BaseModel):
        body: str

    protected = idempotent(operation="POST /parsed", tenant=TENANT, store=MemoryStore())(handler)
    parsed: Any = event_parser(model=APIGatewayProxyEvent)(protected)
    parsed(POST, None)


@CALLED.told("a plain function returned an awaitable, which nobody awaits")
def _a_coroutine_from_a_plain_handler() -> None:
    async def work() -> dict[str, int]:
        return {"statusCode": 200}

    answered(POST, then=lambda event, context: work())


@CALLED.told("the route is an async function, and app.resolve does not await it")
def _an_async_route_of_a_plain_resolver() -> None:
    app = APIGatewayHttpResolver()

    @app.post("/payments", middlewares=[idempotent_route(tenant=TENANT, store=MemoryStore())])
    async def pay() -> dict[str, int]:
        return {}

    app.resolve(POST, SimpleNamespace(get_remaining_time_in_millis=lambda: 1000))  # type: ignore[arg-type]


@CALLED.told("after the handler has ended: its operation is over; take the operation of the")
def _the_operation_of_an_earlier_request() -> None:
    kept: list[Operation] = []

    def keep(event: object, context: object, op: Operation) -> dict[str, int]:
        kept.append(op)
        return {"statusCode": 200}

    answered(POST, then=keep, effects="recorded")
    kept[0].step("charge", lambda: None)


@CALLED.told("declare the operation effects='recorded'")
def _a_step_of_unrecorded_effects() -> None:
    def step(event: object, context: object, op: Operation) -> None:
        op.step("charge", lambda: None)

    answered(POST, then=step)


@CALLED.told("there is no outbox; name its table in ONCEKEY_OUTBOX_TABLE")
def _a_message_without_an_outbox() -> None:
    def publish(event: object, context: object, op: Operation) -> dict[str, int]:
        op.outbox.publish("payment.requested", {})
        return {"statusCode": 202}

    with dynamodb_table() as client:
        answered(POST, then=publish, effects="recorded", store=store_on(client))


@CALLED.told("the body of the handler's answer is text, not dict: use json.dumps")
def _a_body_that_is_no_text() -> None:
    answered(POST, then=lambda event, context: {"statusCode": 200, "body": {"paid": True}})


@LOGGED.told("there is no 'tenantId' in the authorizer's context (did you mean tenant_id?)")
def _a_claim_of_another_name() -> None:
    answered(POST, tenant=jwt_claim("tenantId"))


@LOGGED.told("check its name, its key (partition key pk of type S, no sort key) and its index due")
def _a_table_with_another_key() -> None:
    with dynamodb_table() as client:
        table_without_index(client, key="id")
        answered(POST, store=DynamoDBStore("another", client=client))


@LOGGED.told("check its name, the Region and the function's permissions")
def _a_table_that_is_not_there() -> None:
    with dynamodb_table() as client:
        answered(POST, store=DynamoDBStore("no-such-table", client=client))


@LOGGED.told("not authorized to perform: dynamodb:PutItem on resource")
def _a_role_without_the_permission() -> None:
    said = "User: arn:aws:sts::123456789012:assumed-role/r/s is not authorized to perform:"
    said += " dynamodb:PutItem on resource: arn:aws:dynamodb:eu-central-1:123456789012:table/t"
    with dynamodb_table() as client:
        refuse(client, {"Code": "AccessDeniedException", "Message": said})
        answered(POST, store=DynamoDBStore("t", client=client))


@LOGGED.told("The table does not have the specified index: due")
def _a_table_without_the_index() -> None:
    said = "The table does not have the specified index: due"
    with dynamodb_table() as client:
        refuse(client, {"Code": "ValidationException", "Message": said}, "Query")
        DynamoDBStore("t", client=client).due("00", 1)


@LOGGED.told("no Region is known: set AWS_REGION, or pass a client of one")
def _without_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    answered(POST, store=DynamoDBStore("t"))


@LOGGED.told("no credentials were found: in Lambda, the function's role gives them")
def _without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    client = boto3.session.Session(region_name="eu-central-1").client("dynamodb")
    answered(POST, store=DynamoDBStore("t", client=client))


@LOGGED.told("which would have run unprotected: list it in methods= to have it protected")
def _a_method_that_no_name_states() -> None:
    answered(with_route(POST, "PUT", "/payments"), operation="payments")


@LOGGED.told("which is shorter than the lease: a client that retries after that runs again")
def _a_retention_shorter_than_the_lease() -> None:
    answered(POST, retention=timedelta(seconds=10))


@LOGGED.told("is declared effects='recorded' and did not use its operation object")
def _recorded_effects_that_nobody_records() -> None:
    def charge(event: object, context: object, op: Operation) -> dict[str, int]:
        return {"statusCode": 201}

    answered(POST, then=charge, effects="recorded")


@LOGGED.told("ONCEKEY_DISABLED is set in the Lambda function payments-api: nothing is protected")
def _switched_off_in_a_lambda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "payments-api")
    answered(POST)


def refuse(client: DynamoDBClient, error: dict[str, str], operation: str = "PutItem") -> None:
    """DynamoDB's error as the answer to every call of `operation`."""
    answer = (SimpleNamespace(status_code=400), {"Error": error, "ResponseMetadata": {}})
    events: Any = client.meta.events
    events.register(f"before-call.dynamodb.{operation}", lambda **_: answer)


@pytest.mark.fault("K12.5")
@pytest.mark.parametrize(
    "mistake", [*DECORATED, *CALLED, *LOGGED], ids=lambda mistake: mistake[1].__name__
)
def test_a_mistake_is_answered_with_what_is_wrong_and_what_to_do(
    mistake: tuple[str, Made], request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever makes a typical mistake is told it in an exception or in the log, with the remedy.

    Red when a message names the mistake no longer, or the mistake passes without a word.
    """
    text, made = mistake
    caplog.set_level(logging.WARNING, logger="oncekey")
    given = {name: request.getfixturevalue(name) for name in made.fixtures}

    said = Mistakes.said(made, given)

    assert text in f"{said}\n{caplog.text}"


@pytest.mark.parametrize("listed", [DECORATED, CALLED, LOGGED], ids=lambda each: each.heading)
def test_the_page_of_errors_lists_these_messages(listed: Mistakes) -> None:
    """Each message stands on the page, in the order of this file, and no other does."""
    table = rows(text_of("layer/docs/reference/errors.md"), listed.heading)

    assert [row[0].strip("`").strip() for row in table] == [text for text, _ in listed]
