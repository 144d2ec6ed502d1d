"""What `describe` adds to a document of a service's own."""

from __future__ import annotations

import copy
import json
import re
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from fastapi import FastAPI
from openapi_spec_validator import validate
from pydantic import BaseModel

from oncekey import STRIPE, ConfigurationError, NotExecuted, Quota, idempotent, single_tenant
from oncekey.asgi import IdempotencyMiddleware
from oncekey.errors import RequestRefused, StoreError
from oncekey.http.key import idempotency_key
from oncekey.openapi import describe
from oncekey.powertools import idempotent_route
from oncekey.queued import OperationStatus
from oncekey.webhooks import Delivery, StripeSignature, webhook
from tests.http.test_key import ACCEPTED, REFUSED
from tests.support.events import Event, load, with_body, with_header, with_key
from tests.support.openapi import check_documented, codes
from tests.support.protected import Protected, answers, fails, while_running

if TYPE_CHECKING:
    from collections.abc import Callable

POST = with_key(load("apigw_http_v2_post"), "a-key-of-a-client-1")
ALWAYS = {
    *("key-missing", "key-invalid", "request-invalid", "tenant-missing", "request-in-progress"),
    *("request-too-old", "key-reused", "answer-unavailable", "not-executed", "store-unavailable"),
}


class Order(BaseModel):
    """A body."""

    amount: int


def bare(*names: str) -> dict[str, Any]:
    """A document of these operations, which says nothing about keys."""
    paths: dict[str, Any] = {}
    for name in names:
        method, _, path = name.partition(" ")
        answer = {"201": {"description": "Made.", "content": {"application/json": {}}}}
        paths.setdefault(path, {})[method.lower()] = {"responses": answer}
    return {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths}


def described(**options: Any) -> dict[str, Any]:
    """The document of one operation with these options."""
    name = "POST /payments"
    protection = idempotent(operation=name, tenant=single_tenant(), **options)
    document = describe(bare(name), {name: protection}, variables={})
    validate(document)
    return document


@pytest.mark.parametrize(
    ("options", "more", "fewer"),
    [
        ({}, {"outcome-unknown"}, set()),
        ({"effects": "recorded"}, {"outcome-unknown", "attempt-unfinished"}, set()),
        ({"effects": "repeatable"}, set(), set()),
        ({"required": False}, {"outcome-unknown"}, {"key-missing"}),
        ({"after_expiry": "gone"}, {"outcome-unknown", "key-expired"}, set()),
        ({"quota": Quota(active_keys=10)}, {"outcome-unknown", "quota-exceeded"}, set()),
        ({"mode": "queued"}, {"outcome-unknown", "not-started-in-time"}, set()),
        ({"preset": STRIPE}, {"outcome-unknown", "request-failed"}, set()),
    ],
    ids=["none", "recorded", "repeatable", "optional", "gone", "quota", "queued", "stripe"],
)
def test_the_options_decide_which_refusals_are_documented(
    options: dict[str, Any], more: set[str], fewer: set[str]
) -> None:
    """An operation lists the refusals that it can send, and no other."""
    assert codes(described(**options), "POST /payments") == (ALWAYS | more) - fewer


def test_the_key_the_replay_and_the_retention_are_documented() -> None:
    """The key's rules, the headers of answers and replays, and how long answers are kept."""
    document = described(min_key_length=20, retention=timedelta(days=7))
    operation = document["paths"]["/payments"]["post"]

    key, first_sent = operation["parameters"]
    assert (key["name"], key["in"], key["required"]) == ("Idempotency-Key", "header", True)
    assert (first_sent["name"], first_sent["required"]) == ("Repeatability-First-Sent", False)
    assert {*operation["responses"]["201"]["headers"]} == {
        *("Idempotency-Key", "Idempotency-Expires", "Idempotent-Replayed"),
    }
    assert "kept for 7 days" in operation["description"]
    assert operation["x-idempotency"] == {"required": True, "retention_s": 604_800}


def test_the_documented_pattern_of_a_key_is_the_rule() -> None:
    """The pattern takes exactly what the layer takes: both forms, their lengths and characters.

    Red when it takes a bare key of 256 characters, which the layer refuses.
    """
    key, _ = described()["paths"]["/payments"]["post"]["parameters"]
    pattern = re.compile(key["schema"]["pattern"])
    lengths = [*("k" * size for size in (15, 16, 255, 256)), *(f'"{"k" * 15}"', f'"{"k" * 256}"')]
    quotes = [*(f'"{" " * size}"' for size in (16, 255)), '"' + "\\\\" * 255 + '"']

    for line in [*ACCEPTED, *REFUSED.values(), *lengths, *quotes]:
        try:
            idempotency_key([line])
        except RequestRefused:
            assert pattern.fullmatch(line) is None, line
        else:
            assert pattern.fullmatch(line.strip()), line


def test_the_refusals_of_a_webhook_are_documented() -> None:
    """The route of a webhook lists what the layer answers for it."""

    @webhook(operation="POST /webhooks/stripe", scheme=StripeSignature(), tenant=single_tenant())
    def hook(delivery: Delivery) -> None:
        del delivery

    document = describe(
        bare("POST /webhooks/stripe"), {"POST /webhooks/stripe": hook}, variables={}
    )

    assert codes(document, "POST /webhooks/stripe") == {
        *("signature-invalid", "event-invalid", "tenant-missing"),
        *("not-executed", "store-unavailable"),
    }


@pytest.mark.parametrize("options", [{"mode": "queued"}, {"in_progress": "accepted"}])
def test_accepted_work_is_documented(options: dict[str, Any]) -> None:
    """The 202 says where to ask, and `GET /operations/{operation_id}` is documented."""
    name, status = "POST /reports", "GET /operations/{operation_id}"
    document = describe(
        bare(name, status),
        {
            name: idempotent(operation=name, tenant=single_tenant(), **options),
            status: OperationStatus(tenant=single_tenant()),
        },
        variables={},
    )

    accepted = document["paths"]["/reports"]["post"]["responses"]["202"]
    assert {"Location", "Retry-After"} <= {*accepted["headers"]}
    assert codes(document, status) == {"tenant-missing", "operation-unknown", "store-unavailable"}
    assert "200" in document["paths"]["/operations/{operation_id}"]["get"]["responses"]


def every_answer(service: Protected) -> list[dict[str, Any]]:
    """The first answer, its replay, and refusals of many kinds."""
    too_old = with_header(
        with_key(POST, "another-key-of-one"),
        *("repeatability-first-sent", "Fri, 27 Nov 1998 10:00:00 GMT"),
    )
    other = with_body(POST, '{"amount": 2}')
    found = [service.send(POST), service.send(POST), service.send(other), service.send(too_old)]
    found += [service.send(with_key(POST)), service.send(with_key(POST, "short"))]
    found += [service.send(with_body(POST, "no JSON"))]
    busy = with_key(POST, "a-key-of-a-client-2")
    found += [while_running(service, busy, lambda: service.send(busy))]
    service.then = fails(NotExecuted())
    found += [service.send(with_key(POST, "a-key-of-a-client-3"))]
    service.then = answers(500)
    found += [service.send(with_key(POST, "a-key-of-a-client-4")) for _ in range(2)]
    for error in (StoreError("away", transient=True), NOT_SET_UP):
        service.store.write = failing(error)
        found += [service.send(with_key(POST, "a-key-of-a-client-5"))]
    return found


# The table is missing, so waiting does not help.
NOT_SET_UP = StoreError("no table", transient=False)
NOT_SET_UP.said = "Requested resource not found"


def failing(error: StoreError) -> Callable[[object], object]:
    """The write of a store that is down."""

    def write(_transition: object) -> object:
        raise error

    return write


@pytest.mark.parametrize("preset", [{}, {"preset": STRIPE}], ids=["ietf", "stripe"])
def test_every_answer_is_as_documented(preset: dict[str, Any]) -> None:
    """Status, headers and body of first answers, replays and refusals fit the document."""
    service = Protected(fingerprint=Order, **preset)
    document = bare("POST /payments")
    made = document["paths"]["/payments"]["post"]["responses"]
    made["201"]["content"]["application/json"] = {"schema": {"type": "object"}}
    made["500"] = copy.deepcopy(made["201"])
    document = describe(document, {"POST /payments": service.handler}, variables={})
    service.then = None

    found = every_answer(service)

    statuses = {answer["statusCode"] for answer in found}
    expected = {201, 400, 409, 412, 500, 503} | (set() if preset else {422})
    assert statuses == expected
    for answer in found:
        headers = {"Content-Type": "application/json", **answer["headers"]}
        check_documented(
            document,
            "POST /payments",
            status=answer["statusCode"],
            headers=headers,
            body=answer["body"],
        )


def test_the_protections_may_be_any_mapping() -> None:
    """Protections by their operations are read from any mapping, not from a `dict` alone."""
    name = "POST /payments"
    protection = idempotent(operation=name, tenant=single_tenant())

    document = describe(bare(name), MappingProxyType({name: protection}), variables={})

    assert "Idempotency-Key" in str(document)


def test_the_document_of_powertools_is_described() -> None:
    """The routes under `idempotent_route`, one by one or all, are found in the app itself."""
    app = APIGatewayHttpResolver(enable_validation=True)
    protection = idempotent_route(tenant=single_tenant(), effects="recorded", fingerprint=Order)

    @app.post("/orders/<order_id>/refunds", middlewares=[protection])
    def refund(order_id: str, order: Order) -> dict[str, Any]:
        return {}

    @app.get("/orders/<order_id>")
    def show(order_id: str) -> dict[str, Any]:
        return {}

    @app.post("/login")
    def login() -> dict[str, Any]:
        return {}

    before = json.loads(app.get_openapi_json_schema())
    document = describe(before, app, variables={})

    validate(document)
    assert codes(document, "POST /orders/{order_id}/refunds") >= {"attempt-unfinished"}
    responses = document["paths"]["/orders/{order_id}/refunds"]["post"]["responses"]
    assert {*responses["422"]["content"]} == {"application/json", "application/problem+json"}
    for path, method in (("/orders/{order_id}", "get"), ("/login", "post")):
        assert document["paths"][path][method] == before["paths"][path][method]
    app.use([idempotent_route(tenant=single_tenant())])
    assert codes(describe(before, app, variables={}), "POST /login")


def test_the_document_of_fastapi_is_described() -> None:
    """The routes that the middleware protects are found in the app, with their own options."""
    app = FastAPI()
    middleware: Any = IdempotencyMiddleware
    app.add_middleware(
        middleware,
        tenant=single_tenant(),
        routes={"POST /refunds": {"effects": "recorded"}, "POST /login": None},
    )

    @app.post("/refunds", status_code=201)
    def refund(order: Order) -> dict[str, Any]:
        return {}

    @app.post("/payments")
    def pay(order: Order) -> dict[str, Any]:
        return {}

    @app.post("/login")
    def login() -> dict[str, Any]:
        return {}

    before = app.openapi()
    document = describe(before, app, variables={})

    validate(document)
    assert "attempt-unfinished" in codes(document, "POST /refunds")
    assert "attempt-unfinished" not in codes(document, "POST /payments")
    responses = document["paths"]["/refunds"]["post"]["responses"]
    assert {*responses["422"]["content"]} == {"application/json", "application/problem+json"}
    assert document["paths"]["/login"] == before["paths"]["/login"]


def test_what_the_document_says_stays() -> None:
    """The given document is not changed, and a parameter that a framework lists is not repeated."""
    name = "POST /payments"
    document = bare(name)
    operation = document["paths"]["/payments"]["post"]
    operation["description"] = "Pay."
    operation["parameters"] = [{"name": "idempotency-key", "in": "header"}]
    operation["responses"]["409"] = {
        "description": "Sold out.",
        "content": {"application/problem+json": {"schema": {"title": "SoldOut"}}},
    }
    before = copy.deepcopy(document)

    after = describe(
        document, {name: idempotent(operation=name, tenant=single_tenant())}, variables={}
    )["paths"]["/payments"]["post"]

    assert document == before
    assert [each["name"] for each in after["parameters"]] == [
        *("Idempotency-Key", "Repeatability-First-Sent")
    ]
    assert after["description"].startswith("Pay.\n\nSafe to retry")
    assert after["responses"]["409"]["description"].startswith("Sold out. `request-in-progress`")
    schema = after["responses"]["409"]["content"]["application/problem+json"]["schema"]
    assert {"title": "SoldOut"} in schema["anyOf"]


def test_a_shared_response_is_copied_before_refusals_are_added() -> None:
    """What stands beside a `$ref` is not read: the refusals would be in no reader's document."""
    name = "POST /payments"
    shared = {"description": "Sold out.", "headers": {"X-Left": {"schema": {"type": "integer"}}}}
    document = {**bare(name), "components": {"responses": {"SoldOut": shared}}}
    responses = document["paths"]["/payments"]["post"]["responses"]
    responses["409"] = {"$ref": "#/components/responses/SoldOut"}

    after = describe(
        document, {name: idempotent(operation=name, tenant=single_tenant())}, variables={}
    )

    validate(after)
    conflict = after["paths"]["/payments"]["post"]["responses"]["409"]
    assert "$ref" not in conflict
    assert conflict["description"].startswith("Sold out. `request-in-progress`")
    assert {"X-Left", "Retry-After"} <= {*conflict["headers"]}
    assert after["components"]["responses"] == {"SoldOut": shared}


def test_statuses_that_are_numbers_are_those_of_the_document() -> None:
    """YAML reads them as numbers, and JSON would have two answers of one status."""
    name = "POST /payments"
    document = bare(name)
    document["paths"]["/payments"]["post"]["responses"] = {409: {"description": "Sold out."}}

    after = describe(
        document, {name: idempotent(operation=name, tenant=single_tenant())}, variables={}
    )

    validate(after)
    responses = after["paths"]["/payments"]["post"]["responses"]
    assert all(isinstance(status, str) for status in responses)
    assert responses["409"]["description"].startswith("Sold out. ")


def test_operations_with_other_problem_types_have_other_schemas() -> None:
    """Two operations with their own `problem_base` do not describe each other's refusals."""
    names = ("POST /payments", "POST /refunds")
    document = describe(
        bare(*names),
        {
            name: idempotent(
                operation=name, tenant=single_tenant(), problem_base=f"urn:{name[6:]}:"
            )
            for name in names
        },
        variables={},
    )

    types = {
        schema["properties"]["type"]["const"]
        for name, schema in document["components"]["schemas"].items()
        if name.startswith("ietf.key-missing")
    }
    assert types == {"urn:payments:key-missing", "urn:refunds:key-missing"}
    validate(document)


def test_an_operation_that_is_not_there_is_named() -> None:
    """A misspelt operation, and one that nothing protects, are faults in one message."""

    def unprotected(event: Event, context: object) -> None: ...

    with pytest.raises(ConfigurationError) as raised:
        describe(
            bare("POST /payments"),
            {
                "POST /payment": idempotent(operation="POST /payment", tenant=single_tenant()),
                "POST /payments": unprotected,
            },
            variables={},
        )

    assert raised.value.faults == [
        "the document has no operation 'POST /payment'",
        "nothing protects 'POST /payments': function is no handler",
    ]
    with pytest.raises(ConfigurationError, match="FastAPI protects no operation"):
        describe(bare("POST /payments"), FastAPI())


class Subclass(IdempotencyMiddleware):
    """A service's own middleware."""


@pytest.mark.parametrize("middleware", [IdempotencyMiddleware, Subclass])
def test_each_middleware_of_an_app_is_found(middleware: Any) -> None:
    """With the options of its own, and in a subclass."""
    app = FastAPI()
    options: dict[str, Any] = {"routes": {"POST /files/{rest:path}": {"required": False}}}
    app.add_middleware(middleware, tenant=single_tenant(), lambda_web_adapter=True, **options)
    app.post("/files/{rest:path}")(lambda rest: rest)
    app.post("/hidden", include_in_schema=False)(lambda: 1)
    document = describe(app.openapi(), app, variables={})

    (item,) = document["paths"].values()
    assert item["post"]["x-idempotency"]["required"] is False


def test_an_operation_of_an_app_that_the_document_leaves_out_stays_out() -> None:
    """A route with `include_in_schema=False` is protected, and not described."""
    app = APIGatewayHttpResolver(enable_validation=True)
    protection = idempotent_route(tenant=single_tenant())

    def refund() -> dict[str, Any]:
        return {}

    app.post("/refunds", middlewares=[protection])(refund)
    app.post("/internal", middlewares=[protection], include_in_schema=False)(refund)
    document = describe(json.loads(app.get_openapi_json_schema()), app, variables={})

    assert {*document["paths"]} == {"/refunds"}
    assert "x-idempotency" in document["paths"]["/refunds"]["post"]
