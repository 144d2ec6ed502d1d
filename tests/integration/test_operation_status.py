"""`GET /operations/{operation_id}`: what it shows, and to whom."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import ConfigurationError, NotExecuted, jwt_claim, single_tenant
from oncekey.operation_status import OperationStatus
from tests.support.accepted import Accepted
from tests.support.events import load, with_claim, with_route, with_tenant
from tests.support.protected import problem_of
from tests.support.steps import BESIDE, POST

if TYPE_CHECKING:
    from collections.abc import Mapping

ABSENT = "00000000-0000-4000-8000-999999999999"
TENANT = jwt_claim("tenant_id")


def shown(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON body of an answer."""
    body: dict[str, Any] = json.loads(answer["body"])
    return body


def looks(status: OperationStatus, operation_id: str, event: dict[str, Any]) -> dict[str, Any]:
    """What `status` answers to the caller of `event`."""
    return status({**event, "pathParameters": {"operation_id": operation_id}}, None)


def test_it_follows_the_operation_to_its_answer() -> None:
    """Pending, in progress and completed are shown with their times, and Retry-After until then."""
    service = Accepted()
    service.sends()
    operation_id = service.record.operation_id
    seen = [service.asks(operation_id)]
    service.handles(
        lambda *_: seen.append(service.asks(operation_id)),
        ends={"statusCode": 201, "headers": {"location": "/reports/7"}, "body": "secret report"},
    )
    service.clock.advance(1_500)
    service.works()
    seen.append(service.asks(operation_id))

    assert [shown(answer)["status"] for answer in seen] == ["pending", "in_progress", "completed"]
    assert ["Retry-After" in answer["headers"] for answer in seen] == [True, True, False]
    assert all(answer["headers"]["Cache-Control"] == "no-store" for answer in seen)
    assert shown(seen[2]) == {
        "operation_id": operation_id,
        "operation": "POST /reports",
        "status": "completed",
        "created_at": "2023-11-14T22:13:20.000Z",
        "completed_at": "2023-11-14T22:13:21.500Z",
        "answer": {"status": 201, "location": "/reports/7"},
    }


@pytest.mark.parametrize(
    ("ends", "status"),
    [(NotExecuted("not now"), "failed_retryable"), (ValueError("broken"), "unknown")],
)
def test_what_has_failed_or_is_unknown_is_shown_as_such(ends: Exception, status: str) -> None:
    """An operation without an answer says what it is, and when to ask again."""
    service = Accepted(effects="unrecorded")
    service.sends(ends=ends)
    with pytest.raises(type(ends)):
        service.works()

    answer = service.asks(service.record.operation_id)

    assert shown(answer)["status"] == status
    assert int(answer["headers"]["Retry-After"]) >= 1
    assert "answer" not in shown(answer)


@pytest.mark.parametrize(
    ("headers", "location"),
    [
        ({"headers": {"Location": "/reports/7"}}, "/reports/7"),
        ({"multiValueHeaders": {"Location": ["/reports/8"]}}, "/reports/8"),
        ({}, None),
    ],
)
def test_the_answer_is_told_wherever_it_is_kept(
    headers: dict[str, Any], location: str | None
) -> None:
    """Status and location of an answer that is kept beside its record are shown like any other."""
    service = Accepted()
    service.sends(ends={"statusCode": 201, **headers, "body": BESIDE.hex()})
    service.works()

    told = shown(service.asks(service.record.operation_id))["answer"]

    assert told == {"status": 201} | ({"location": location} if location else {})


def test_an_answer_that_is_gone_is_left_out() -> None:
    """Where the stored answer is missing, the operation is shown as completed, without it."""
    service = Accepted()
    service.sends(ends={"statusCode": 201, "body": BESIDE.hex()})
    service.works()
    operation_id = service.record.operation_id
    for name in [name for name in service.store.blobs if not name.startswith("op#")]:
        del service.store.blobs[name]

    assert shown(service.asks(operation_id))["status"] == "completed"
    assert "answer" not in shown(service.asks(operation_id))


def test_others_see_what_is_absent() -> None:
    """Absent, expired and another tenant's operations get the same 404, byte for byte."""
    service = Accepted(tenant=TENANT)
    service.send(with_tenant(POST, "acme"))
    operation_id = service.record.operation_id
    status = OperationStatus(tenant=TENANT, store=service.store, clock=service.clock)
    own = looks(status, operation_id, with_tenant(POST, "acme"))
    foreign = looks(status, operation_id, with_tenant(POST, "globex"))
    absent = looks(status, ABSENT, with_tenant(POST, "acme"))
    odd = [looks(status, odd, with_tenant(POST, "acme")) for odd in ("", "op#", "x" * 3_000)]
    service.works()
    service.clock.advance(25 * 3_600_000)
    expired = looks(status, operation_id, with_tenant(POST, "acme"))
    unknown = looks(status, operation_id, with_tenant(POST, None))

    assert own["statusCode"] == 200
    assert problem_of(absent) == (404, "operation-unknown", False)
    assert foreign == absent == expired
    assert odd == [absent] * 3
    assert problem_of(unknown)[:2] == (403, "tenant-missing")


def test_a_principals_operations_are_its_own() -> None:
    """Operations that are scoped by a principal are shown to it alone, keys stored or not."""
    sub = jwt_claim("sub")
    service = Accepted(tenant=TENANT, principal=sub, store_raw_key=False)
    mine = with_claim(with_tenant(POST, "acme"), "sub", "user-1")
    service.send(mine)
    operation_id = service.record.operation_id
    status = OperationStatus(tenant=TENANT, principal=sub, store=service.store, clock=service.clock)
    everybody = OperationStatus(tenant=TENANT, store=service.store, clock=service.clock)

    assert looks(status, operation_id, mine)["statusCode"] == 200
    colleague = with_claim(mine, "sub", "user-2")
    assert looks(status, operation_id, colleague)["statusCode"] == 404
    assert looks(everybody, operation_id, mine)["statusCode"] == 404


def test_a_store_that_is_down_is_said_to_be() -> None:
    """Without its store it answers 503 and when to ask again, and not that there is nothing."""
    service = Accepted()
    service.sends()
    operation_id = service.record.operation_id
    answers = []
    for call in ("fetch", "read"):
        service.store.refuse(call)
        answers.append(service.asks(operation_id))

    assert [problem_of(answer) for answer in answers] == [(503, "store-unavailable", True)] * 2
    assert all(answer["headers"]["Retry-After"] == "1" for answer in answers)


def test_it_writes_nothing() -> None:
    """Asking changes neither the record nor anything beside it."""
    service = Accepted()
    service.sends()
    before = (dict(service.store.records), dict(service.store.blobs))
    asked = len(service.store.asked)

    service.asks(service.record.operation_id)

    assert (service.store.records, service.store.blobs) == before
    assert service.store.asked[asked:] == ["fetch", "read"]


@pytest.mark.parametrize(
    "name",
    ["apigw_http_v2_post", "apigw_rest_v1_post", "function_url_post", "alb_multi_value_post"],
)
def test_every_gateway_can_ask(name: str) -> None:
    """The answer has the form that the event's gateway wants."""
    service = Accepted()
    service.sends()
    status = OperationStatus(tenant=single_tenant(), store=service.store, clock=service.clock)

    answer = looks(status, service.record.operation_id, load(name))

    assert answer["statusCode"] == 200
    field = "multiValueHeaders" if "multi_value" in name else "headers"
    assert answer[field]["Cache-Control"] in ("no-store", ["no-store"])


def test_a_gateway_without_path_parameters_can_ask() -> None:
    """Behind a load balancer or a Function URL the id is the last part of the path."""
    service = Accepted()
    service.sends()
    path = f"/operations/{service.record.operation_id}"
    event = with_route(load("alb_post"), "GET", path)

    answer = service.status(event, None)

    assert shown(answer)["operation_id"] == service.record.operation_id


def test_the_id_of_an_earlier_operation_under_the_key_is_gone() -> None:
    """After its expiry an operation is absent, though another lives under its key."""
    service = Accepted()
    service.sends()
    old = service.record.operation_id
    service.works()
    service.clock.advance(25 * 3_600_000)
    service.sends()

    assert service.record.operation_id != old
    assert service.asks(old)["statusCode"] == 404


def test_what_is_no_id_asks_the_store_for_nothing() -> None:
    """A text that no operation can have as its id is a 404 without a call."""
    service = Accepted()

    answers = [
        service.asks(odd)["statusCode"] for odd in ("x", "op#" + ABSENT, ABSENT.upper() + "A")
    ]

    assert (answers, service.store.asked) == ([404] * 3, [])


def test_wrong_options_are_named() -> None:
    """A tenant that is no source is a fault at once."""
    wrong: Any = "acme"
    with pytest.raises(ConfigurationError, match="tenant is no source"):
        OperationStatus(tenant=wrong)
