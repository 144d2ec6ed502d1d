"""The contenders: each protects the same work with its own library, configured as by its guide.

Powertools gets the equal of what oncekey does by default: the key from the header, and a check that
the body is the same. Where it has no equal, its handler does the work as its users do: the business
write and the message in a transaction of their own, and each step in an idempotent function. Bare
boto3 sends the requests that oncekey sends, with a client of defaults, and does nothing else.

`on_run` is called whenever the work runs.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

from tests.benchmarks.cases import OUTBOX, PAYMENTS, TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from oncekey import Operation
    from tests.benchmarks.cases import Case
    from tests.benchmarks.transport import Request
    from tests.support.events import Event

    Handler = Callable[[Event, Any], Any]
    OnRun = Callable[[Event], None]

STEPS = ("reserve-stock", "charge", "book-courier")


def nothing(_event: Event) -> None:
    """The usual `on_run`."""


def oncekey(case: Case, on_run: OnRun = nothing) -> Handler:
    """The default store: the table that ONCEKEY_TABLE names, by the library's own client."""
    from oncekey import idempotent, idempotent_function, jwt_claim, single_tenant

    answer = case.answer()
    effects = "recorded" if case.work in {"transaction", "steps"} else "unrecorded"
    protect = idempotent(
        operation=f"POST /{case.name}", tenant=jwt_claim("tenant_id"), effects=effects
    )

    def with_transaction(event: Event, context: object, op: Operation) -> dict[str, Any]:
        payment_id = op.operation_id
        row = {"pk": payment_id, "amount": 1200, "currency": "eur", "status": "requested"}
        op.transaction.put(PAYMENTS, row)
        op.outbox.publish("payment.requested", {"payment_id": payment_id})
        return answer

    def with_steps(event: Event, context: object, op: Operation) -> dict[str, Any]:
        for name in STEPS:
            op.step(name, lambda: op.downstream_key(name), idempotent=True)  # noqa: B023 -- called at once
        return answer

    def alone(event: Event, context: object) -> dict[str, Any]:
        on_run(event)
        return answer

    if case.work == "function":
        return idempotent_function(
            operation=case.name,
            key=lambda invoice, _: invoice["invoice_id"],
            tenant=single_tenant(),
        )(alone)
    return protect({"transaction": with_transaction, "steps": with_steps}.get(case.work, alone))


def powertools(case: Case, on_run: OnRun = nothing) -> Handler:
    """The idempotency utility on DynamoDB, with its guide's answer to a running duplicate."""
    import boto3
    from aws_lambda_powertools.utilities.idempotency import (
        DynamoDBPersistenceLayer,
        IdempotencyConfig,
        idempotent,
        idempotent_function,
    )
    from aws_lambda_powertools.utilities.idempotency.exceptions import (
        IdempotencyAlreadyInProgressError,
    )

    answer, day_s = case.answer(), 24 * 3600
    if case.work == "function":
        config = IdempotencyConfig(event_key_jmespath="invoice_id", expires_after_seconds=day_s)
        layer = DynamoDBPersistenceLayer(table_name=TABLE)

        def settle(invoice: Event) -> dict[str, Any]:
            return answer

        protected_settle = idempotent_function(
            settle, data_keyword_argument="invoice", persistence_store=layer, config=config
        )

        def settled(event: Event, context: Any) -> Any:
            config.register_lambda_context(context)
            return protected_settle(invoice=event)

        return settled

    client: Any = boto3.client("dynamodb") if case.work == "transaction" else None
    of_steps = IdempotencyConfig(event_key_jmespath="id", expires_after_seconds=day_s)
    steps = [_powertools_step(name, of_steps) for name in STEPS] if case.work == "steps" else []

    @idempotent(
        persistence_store=DynamoDBPersistenceLayer(table_name=TABLE),
        config=IdempotencyConfig(
            event_key_jmespath='headers."idempotency-key"',
            payload_validation_jmespath="body",
            raise_on_no_idempotency_key=True,
            expires_after_seconds=day_s,
        ),
    )
    def protected(event: Event, context: Any) -> dict[str, Any]:
        on_run(event)
        if client is not None:
            client.transact_write_items(TransactItems=_writes(case.key(event)))
        of_steps.register_lambda_context(context)
        for step in steps:
            step(call={"id": case.key(event)})
        return answer

    def handler(event: Event, context: Any) -> Any:
        try:
            return protected(event, context)
        except IdempotencyAlreadyInProgressError:
            return {"statusCode": 409, "body": '{"title":"The first request still runs."}'}

    return handler


def bare(case: Case, requests: Mapping[str, Sequence[Request]]) -> Handler:
    """Sends the `requests` of each key, and takes a failed condition as an answer."""
    import boto3

    client: Any = boto3.client("dynamodb")
    calls = {
        key: [(getattr(client, method), arguments) for method, arguments in map(arguments_of, sent)]
        for key, sent in requests.items()
    }
    refused = client.exceptions.ConditionalCheckFailedException
    answer = case.answer()
    if case.status != answer.get("statusCode", case.status):
        answer = {"statusCode": case.status}

    def handler(event: Event, context: object) -> Any:
        for method, parameters in calls[case.key(event)]:
            try:
                method(**parameters)
            except refused:
                continue
        return answer

    return handler


def _powertools_step(name: str, config: Any) -> Callable[..., Any]:
    from aws_lambda_powertools.utilities.idempotency import (
        DynamoDBPersistenceLayer,
        idempotent_function,
    )

    def step(call: Mapping[str, str]) -> str:
        return "6a1b9a0e-3d0c-5d3c-8f6b-0d8e2c7a4b11"

    protected: Callable[..., Any] = idempotent_function(
        step,
        data_keyword_argument="call",
        persistence_store=DynamoDBPersistenceLayer(table_name=TABLE),
        config=config,
        key_prefix=name,
    )
    return protected


def _writes(key: str) -> list[dict[str, Any]]:
    row = {
        "pk": {"S": key},
        "amount": {"N": "1200"},
        "currency": {"S": "eur"},
        "status": {"S": "requested"},
    }
    message = {
        "id": {"S": key},
        "topic": {"S": "payment.requested"},
        "payload": {"S": json.dumps({"payment_id": key})},
    }
    return [
        {"Put": {"TableName": PAYMENTS, "Item": row}},
        {"Put": {"TableName": OUTBOX, "Item": message}},
    ]


def arguments_of(request: Request) -> tuple[str, dict[str, Any]]:
    """The method of a boto3 client that sends `request`, and its parameters."""
    method = re.sub(r"(?<!^)([A-Z])", r"_\1", request.operation).lower()
    return method, json.loads(request.body, object_hook=_with_bytes)


def _with_bytes(value: dict[str, Any]) -> dict[str, Any]:
    if set(value) == {"B"}:
        return {"B": base64.b64decode(value["B"])}
    return value
