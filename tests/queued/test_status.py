"""`GET /operations/{operation_id}`: what it shows of an operation, and to whom."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import ConfigurationError, NotExecuted, jwt_claim, single_tenant
from oncekey.queued.status import OperationStatus
from oncekey.record.policy import LONGEST_WORK_S
from oncekey.record.record import Status
from oncekey.record.stored_answer import Place, StoredRef
from tests.support.async_world import (
    HOUR_MS,
    POST,
    Accepting,
    accepted,
    shown,
    status_event,
)
from tests.support.events import load, with_claim, with_tenant
from tests.support.protected import SHAPES, fails, headers_of, problem_of
from tests.support.steps import noise

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.protected import Answer
    from tests.support.recorded import World

# The manual clock begins here: 2023-11-14T22:13:20Z.
CREATED_AT = "2023-11-14T22:13:20.000Z"


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_finds_its_operation(shape: str) -> None:
    """The id is the route's parameter, or the end of the path where there are no routes; the answer
    has the shape's form.
    """
    service = Accepting()
    _, _, operation_id = accepted(service.send(load(shape)))
    status = OperationStatus(tenant=single_tenant(), store=service.store, clock=service.clock)

    answer = status(status_event(operation_id, shape), service.context())

    assert shown(answer)["operation_id"] == operation_id
    multi_value = shape == "alb_multi_value_post"
    assert ("headers" in answer, "multiValueHeaders" in answer) == (not multi_value, multi_value)


def test_what_waits_and_what_runs_is_shown_with_retry_after(
    make: Callable[..., Accepting],
) -> None:
    """Both have id, operation, state and the time of their acceptance, and say when to ask again,
    no later than the lease ends.
    """
    service = make(timeout_ms=2_000)
    _, _, operation_id = accepted(service.send(POST))
    waiting = service.ask()
    running: list[Answer] = []

    def handler(_event: object, _op: object) -> Answer:
        service.clock.advance(5_500)
        running.append(service.ask())
        return {"statusCode": 201, "body": ""}

    service.then = handler
    service.perform()

    whole = {"operation_id": operation_id, "operation": "POST /payments", "created_at": CREATED_AT}
    assert shown(waiting) == {**whole, "status": "pending"}
    assert shown(running[0]) == {**whole, "status": "in_progress"}
    assert headers_of(waiting)["retry-after"] == "5"
    assert headers_of(running[0])["retry-after"] == "2"


@pytest.mark.parametrize(
    ("error", "status"),
    [(NotExecuted(), Status.FAILED_RETRYABLE), (ValueError(), Status.UNKNOWN)],
    ids=["failed", "unknown"],
)
def test_what_is_not_settled_is_shown_with_retry_after(
    make: Callable[..., Accepting], error: Exception, status: Status
) -> None:
    """What failed and may run again, and what nobody knows, are open: nothing is said of an end."""
    service = make()
    service.send(POST)
    service.then = fails(error)
    service.work()

    answer = service.ask()

    assert service.record.status is status
    assert set(shown(answer)) == {"operation_id", "operation", "status", "created_at"}
    assert shown(answer)["status"] == status.value.lower()
    assert headers_of(answer)["retry-after"] == "60"


ANSWERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "inline": (
        {"statusCode": 201, "headers": {"Location": "/reports/1"}, "body": "made"},
        {"status": 201, "location": "/reports/1"},
    ),
    "in lower case": (
        {"statusCode": 303, "headers": {"location": "/reports/1"}, "body": ""},
        {"status": 303, "location": "/reports/1"},
    ),
    "multi-value": (
        {"statusCode": 201, "multiValueHeaders": {"Location": ["/reports/1"]}, "body": ""},
        {"status": 201, "location": "/reports/1"},
    ),
    "compressed": (
        {"statusCode": 201, "headers": {"Location": "/reports/1"}, "body": "x" * 5_000},
        {"status": 201, "location": "/reports/1"},
    ),
    "in a companion": (
        {"statusCode": 201, "headers": {"Location": "/reports/1"}, "body": noise(5_000).hex()},
        {"status": 201, "location": "/reports/1"},
    ),
    "in the bucket": (
        {"statusCode": 201, "headers": {"Location": "/reports/1"}, "body": noise(500_000).hex()},
        {"status": 201, "location": "/reports/1"},
    ),
    "without location": ({"statusCode": 204, "body": ""}, {"status": 204}),
    "an empty location": (
        {"statusCode": 200, "headers": {"Location": ""}, "body": ""},
        {"status": 200},
    ),
    "a refusal": ({"statusCode": 404, "body": "no"}, {"status": 404}),
    "a status as text": ({"statusCode": "201", "body": ""}, {"status": 201}),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_completed_is_shown_with_status_and_location(
    make: Callable[..., Accepting], name: str
) -> None:
    """Wherever the answer is kept, its status and location are told, and when it was given; its
    body is not, and there is nothing to wait for.
    """
    service = make()
    service.send(POST)
    service.then = lambda _event, _op: dict(ANSWERS[name][0])
    service.clock.advance(1_234)
    service.perform()

    answer = service.ask()

    assert shown(answer) == {
        "operation_id": service.record.operation_id,
        "operation": "POST /payments",
        "status": "completed",
        "created_at": CREATED_AT,
        "completed_at": "2023-11-14T22:13:21.234Z",
        "answer": ANSWERS[name][1],
    }
    assert "retry-after" not in headers_of(answer)


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_an_answer_that_cannot_be_given_is_still_completed(damage: str) -> None:
    """The operation is done; only what it answered is not told."""
    service = Accepting()
    service.send(POST)
    service.then = lambda _event, _op: {"statusCode": 201, "body": noise(5_000).hex()}
    service.perform()
    at = service.record.response
    assert isinstance(at, StoredRef)
    assert at.place is Place.ITEM
    if damage == "missing":
        del service.store.blobs[at.name]
    else:
        service.store.blobs[at.name] = b"something else"

    assert shown(service.ask())["status"] == "completed"
    assert "answer" not in shown(service.ask())


def tenant_of(service: Accepting, operation_id: str, tenant: str | None) -> Answer:
    """What this tenant is told of the operation."""
    status = OperationStatus(
        tenant=jwt_claim("tenant_id"), store=service.store, clock=service.clock
    )
    return status(with_tenant(status_event(operation_id), tenant), service.context())


@pytest.mark.requirement("C11")
@pytest.mark.parametrize("is_done", [False, True])
def test_absent_expired_and_somebody_elses_are_the_same_404(
    make: Callable[..., Accepting], is_done: bool
) -> None:
    """Another tenant's operation, one that never was, one that has expired and whatever else the
    path may say get equal answers, byte for byte.

    Red when the pointer's caller is not compared, or any of them is told apart.
    """
    service = make(tenant=jwt_claim("tenant_id"), retention=timedelta(hours=1))
    _, _, operation_id = accepted(service.send(with_tenant(POST, "acme")))
    if is_done:
        service.perform()
    assert shown(tenant_of(service, operation_id, "acme"))

    others = [tenant_of(service, operation_id, tenant) for tenant in ("other", "acme ", "ACME")]
    absent = tenant_of(service, "00000000-0000-4000-8000-000000999999", "acme")
    nonsense = [
        tenant_of(service, each, "acme")
        for each in (operation_id.upper() + "A", f"op#{operation_id}", service.record.pk, "%00")
    ]
    service.perform()
    service.clock.advance(HOUR_MS + 1_000)
    expired = tenant_of(service, operation_id, "acme")

    assert problem_of(absent) == (404, "operation-unknown", False)
    assert headers_of(absent)["cache-control"] == "no-store"
    assert all(each == absent for each in [*others, *nonsense, expired])


def test_a_text_that_no_operation_is_called_asks_nothing() -> None:
    """However long or strange it is, it is a 404, and the store is not asked."""
    service = Accepting()

    for text in ("/", "x", "a" * 5_000, "\ud800", "../", "00000000-0000-4000-8000-00000000000é"):
        assert problem_of(service.ask(text))[:2] == (404, "operation-unknown")
    assert service.store.asked == []


def test_an_operation_whose_key_has_expired_is_absent(make: Callable[..., Accepting]) -> None:
    """With `after_expiry="gone"`, an operation is a 404 as soon as its key gets the 410."""
    service = make(retention=timedelta(hours=1), after_expiry="gone", gone_for=timedelta(hours=1))
    _, _, operation_id = accepted(service.send(POST))
    service.perform()
    service.clock.advance(HOUR_MS - 1_000)
    before = shown(service.ask(operation_id))
    service.clock.advance(1_000)

    assert before["status"] == "completed"
    assert problem_of(service.send(POST))[:2] == (410, "key-expired")
    assert problem_of(service.ask(operation_id))[:2] == (404, "operation-unknown")


def test_an_operation_that_failed_and_has_expired_is_absent() -> None:
    """One without an answer expires as well, after its message can no longer come."""
    service = Accepting(retention=timedelta(hours=1))
    service.then = fails(NotExecuted())
    _, _, operation_id = accepted(service.send(POST))
    assert service.work() == "NotExecuted"
    before = shown(service.ask(operation_id))
    service.clock.advance(1_000 * (3_600 + LONGEST_WORK_S) + 1_000)

    assert before["status"] == "failed_retryable"
    assert problem_of(service.ask(operation_id))[:2] == (404, "operation-unknown")


def test_the_operation_of_a_key_used_again_is_another(make: Callable[..., Accepting]) -> None:
    """After the expiry the first id is a 404, though its pointer and a record of its key exist."""
    service = make(retention=timedelta(hours=1))
    _, _, first = accepted(service.send(POST))
    service.perform()
    service.clock.advance(HOUR_MS + 1_000)
    _, _, second = accepted(service.send(POST))

    assert problem_of(service.ask(first))[:2] == (404, "operation-unknown")
    assert shown(service.ask(second))["status"] == "pending"


def test_a_request_without_a_tenant_is_refused() -> None:
    """It is a 403 before anything is read."""
    service = Accepting(tenant=jwt_claim("tenant_id"))
    _, _, operation_id = accepted(service.send(with_tenant(POST, "acme")))
    asked = list(service.store.asked)

    assert problem_of(tenant_of(service, operation_id, None)) == (403, "tenant-missing", False)
    assert service.store.asked == asked


def test_operations_of_a_principal_are_shown_to_that_one_alone() -> None:
    """With `principal=` the same principal of the same tenant finds it, another does not, nor does
    one who is asked for no principal; operations of the whole tenant are found by all of it.
    """
    own = {"tenant": jwt_claim("tenant_id"), "principal": jwt_claim("sub")}
    service = Accepting(**own)
    _, _, operation_id = accepted(service.send(with_claim(POST, "sub", "anna")))
    shared = Accepting(store=service.store, tenant=jwt_claim("tenant_id"), operation="POST /other")
    shared.clock.new_owner()
    shared.clock.new_owner()
    _, _, shared_id = accepted(shared.send(with_claim(POST, "sub", "anna")))

    def told(sub: str | None, wanted: str, sources: dict[str, Any]) -> int:
        status = OperationStatus(store=service.store, clock=service.clock, **sources)
        event = with_claim(status_event(wanted), "sub", sub)
        return int(status(event, service.context())["statusCode"])

    assert [told(sub, operation_id, own) for sub in ("anna", "ben", None)] == [200, 404, 404]
    assert told("anna", operation_id, {"tenant": jwt_claim("tenant_id")}) == 404
    assert [told(sub, shared_id, own) for sub in ("anna", "ben", None)] == [200, 200, 200]


@pytest.mark.parametrize("call", ["fetch", "read"])
@pytest.mark.parametrize("failure", ["refused", "denied"])
def test_a_store_that_is_down_is_a_503(call: str, failure: str) -> None:
    """It says to come back, and is not cached; absence is not claimed of what was not read."""
    service = Accepting()
    service.send(POST)
    if failure == "refused":
        service.store.refuse(call, 100)
    else:
        service.store.deny(call)

    answer = service.ask()

    assert problem_of(answer) == (503, "store-unavailable", True)
    assert headers_of(answer)["retry-after"] == "1"
    assert headers_of(answer)["cache-control"] == "no-store"


def test_nothing_is_written_by_asking(make: Callable[..., Accepting]) -> None:
    """Not even an operation that is late is changed: whoever meets it with its key ends it."""
    service = make()
    service.send(POST)
    service.clock.advance(HOUR_MS)
    before = service.record

    assert shown(service.ask())["status"] == "pending"
    assert service.record == before


def test_the_pointer_says_nothing_of_who_asked(world: World) -> None:
    """It has the record's key and a hash, and outlives the record's answer."""
    service = Accepting(store=world.store(), tenant=jwt_claim("tenant_id"))
    answer = service.send(with_tenant(POST, "a-very-personal-name"))
    operation_id = accepted(answer)[2]

    name = {"pk": {"S": f"op#{operation_id}"}}
    item: Any = world.client.get_item(TableName="idempotency-under-test", Key=name)["Item"]
    kept = json.loads(bytes(item["data"]["B"]))

    assert set(item) == {"pk", "data", "expires_at"}
    assert set(kept) == {"pk", "caller"}
    assert kept["pk"] == world.record.pk
    assert "a-very-personal-name" not in json.dumps(kept)
    assert int(item["expires_at"]["N"]) == service.clock.now_ms() // 1000 + 29 * 24 * 3600


def test_wrong_options_are_refused_when_it_is_made() -> None:
    """All faults are in one message."""
    wrong: Any = {"tenant": "acme", "principal": 5, "store": "table", "clock": "x"}

    with pytest.raises(ConfigurationError) as refused:
        OperationStatus(**wrong)

    assert len(refused.value.faults) == 4
