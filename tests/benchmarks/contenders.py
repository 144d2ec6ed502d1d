"""The contenders: each protects the same work with its own library, configured as by its guide.

Powertools gets the equal of what oncekey does by default: the key from the header, and a check that
the body is the same. Bare boto3 sends the requests that oncekey sends, with a client of defaults,
and does nothing else.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

from tests.benchmarks.cases import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.benchmarks.cases import Case
    from tests.benchmarks.transport import Request
    from tests.support.events import Event

    Handler = Callable[[Event, Any], dict[str, Any]]
    Work = Callable[[Event], dict[str, Any]]


def oncekey(case: Case, work: Work) -> Handler:
    """The default store: the table that ONCEKEY_TABLE names, by the library's own client."""
    from oncekey import idempotent, jwt_claim

    @idempotent(operation=f"POST /{case.name}", tenant=jwt_claim("tenant_id"), **case.options)
    def handler(event: Event, context: object) -> dict[str, Any]:
        return work(event)

    return handler


def powertools(case: Case, work: Work) -> Handler:
    """The idempotency utility on DynamoDB, with the guide's answer to a running duplicate."""
    from aws_lambda_powertools.utilities.idempotency import (
        DynamoDBPersistenceLayer,
        IdempotencyConfig,
        idempotent,
    )
    from aws_lambda_powertools.utilities.idempotency.exceptions import (
        IdempotencyAlreadyInProgressError,
    )

    config = IdempotencyConfig(
        event_key_jmespath='headers."idempotency-key"',
        payload_validation_jmespath="body",
        raise_on_no_idempotency_key=True,
        expires_after_seconds=24 * 3600,
    )

    @idempotent(config=config, persistence_store=DynamoDBPersistenceLayer(table_name=TABLE))
    def protected(event: Event, context: Any) -> dict[str, Any]:
        return work(event)

    def handler(event: Event, context: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = protected(event, context)
        except IdempotencyAlreadyInProgressError:
            return {"statusCode": 409, "body": '{"title":"The first request still runs."}'}
        return answer

    return handler


def bare(case: Case, work: Work, requests: Mapping[str, Sequence[Request]]) -> Handler:
    """Sends the `requests` of each key, and takes a failed condition as an answer."""
    import boto3

    client = boto3.client("dynamodb")
    calls = {key: [_call(client, each) for each in sent] for key, sent in requests.items()}
    refused = (
        client.exceptions.ConditionalCheckFailedException,
        client.exceptions.TransactionCanceledException,
    )
    answer = {**work({}), "statusCode": case.status}

    def handler(event: Event, context: object) -> dict[str, Any]:
        for method, parameters in calls[event["headers"]["idempotency-key"]]:
            try:
                method(**parameters)
            except refused:
                continue
        return answer

    return handler


def _call(client: Any, request: Request) -> tuple[Callable[..., Any], dict[str, Any]]:
    name = re.sub(r"(?<!^)([A-Z])", r"_\1", request.operation).lower()
    return getattr(client, name), json.loads(request.body, object_hook=_with_bytes)


def _with_bytes(value: dict[str, Any]) -> dict[str, Any]:
    if set(value) == {"B"}:
        return {"B": base64.b64decode(value["B"])}
    return value
