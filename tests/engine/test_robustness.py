"""Odd handlers, options, events and moments: no second effect, no wrong answer."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import traceback
from collections import Counter
from typing import Any

import pytest

from oncekey import (
    Final,
    NotExecuted,
    Operation,
    iam_principal,
    idempotent,
    jwt_claim,
    single_tenant,
)
from oncekey.record.record import Status
from oncekey.testing.memory import MemoryStore
from tests.support.events import load, with_header, with_route, with_tenant
from tests.support.protected import (
    Protected,
    headers_of,
    problem_of,
    records,
    while_running,
)
from tests.support.replacing import replace

POST = load("apigw_http_v2_post")


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param(lambda: {"statusCode": 201, "body": {"id": 1}}, id="a body that is no text"),
        pytest.param(lambda: {"statusCode": 1}, id="no status"),
    ],
)
def test_an_answer_of_the_wrong_form_is_no_proof_that_nothing_happened(returned: Any) -> None:
    """A rule that accepts TypeError is about the handler's errors, not about what it returned after
    it had charged: the handler never runs again.
    """
    service = Protected(not_executed=TypeError)
    service.then = lambda _event, _op: returned()

    with pytest.raises(TypeError):
        service.send(POST)

    assert problem_of(service.send(POST))[1] in {"answer-unavailable", "outcome-unknown"}
    assert len(service.runs) == 1


def test_a_final_of_the_wrong_form_is_no_proof_either() -> None:
    """A `Final` whose body cannot be sent ends the operation all the same."""
    service = Protected(not_executed=TypeError)

    def handler(_event: object, _op: object) -> None:
        raise Final(201, {"at": object()})

    service.then = handler
    with pytest.raises(TypeError):
        service.send(POST)
    service.send(POST)

    assert len(service.runs) == 1


def test_nothing_is_said_to_have_not_happened_that_may_have() -> None:
    """A refusal speaks of this attempt only, and warns of a new key: an earlier attempt may have
    had its effect.
    """
    service = Protected(effects="repeatable")

    def handler(_event: object, _op: object) -> None:
        raise NotExecuted

    service.then = handler
    for answer in (service.send(POST), service.handler(dict(POST), Expired())):
        detail = json.loads(answer["body"])["detail"]
        assert "Nothing happened" not in detail
        assert "This attempt was not carried out" in detail
        assert "A new key could run it twice" in detail


class Expired:
    """A Lambda context without time."""

    @staticmethod
    def get_remaining_time_in_millis() -> int:
        """None left."""
        return 0


def test_a_reserve_that_took_all_the_time_starts_nothing() -> None:
    """The deadline passes while the key is reserved: the handler does not begin, and the key is
    free for the next attempt at once.
    """

    class Slow(MemoryStore):
        def write(self, transition: Any) -> Any:
            if type(transition).__name__ == "Reserve":
                service.clock.advance(1_001)
            return super().write(transition)

    service = Protected(store=Slow(), timeout_ms=1_000)

    assert problem_of(service.send(POST)) == (503, "not-executed", True)
    assert service.runs == []
    assert records(service)[0].status is Status.FAILED_RETRYABLE


def test_who_must_have_looked_and_has_not_is_not_asked_for_each_second() -> None:
    """An unknown outcome that is past its date keeps clients away for a minute."""
    service = Protected()
    service.then = lambda _event, _op: {"statusCode": 500, "body": ""}
    service.send(POST)
    service.clock.advance(3_600_000)

    assert headers_of(service.send(POST))["retry-after"] == "60"


@pytest.mark.parametrize("effects", ["unrecorded", "repeatable"])
def test_a_not_now_that_is_passed_on_is_not_final(effects: str) -> None:
    """A handler that returns another operation's "still running" has not ended: its answer is not
    replayed.
    """
    inner = Protected(operation="POST /inner")
    outer = Protected(operation="POST /outer", effects=effects)
    outer.then = lambda event, _op: inner.send(event)

    answer = while_running(inner, POST, lambda: outer.send(POST))

    assert problem_of(answer)[1] == "request-in-progress"
    assert records(outer)[0].status is not Status.COMPLETED
    if effects == "repeatable":
        assert outer.send(POST)["statusCode"] == 201


def frames_of(error: BaseException) -> int:
    """How many frames the traceback of `error` holds."""
    return sum(1 for _ in traceback.walk_tb(error.__traceback__))


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("constant", [NotExecuted(), Final(402, {})], ids=["not executed", "final"])
def test_an_exception_that_is_raised_for_each_request_keeps_none_of_them(
    constant: Exception, is_async: bool
) -> None:
    """A sandbox's memory does not grow by the frames of each request, with the event in them."""
    options: Any = {"operation": "POST /payments", "tenant": single_tenant()}
    decorate = idempotent(store=MemoryStore(), **options)

    @decorate
    def handler(_event: Any, _context: Any) -> Any:
        raise constant

    @idempotent(store=MemoryStore(), **options)
    async def handler_async(_event: Any, _context: Any) -> Any:
        raise constant

    for _ in range(3):
        if is_async:
            asyncio.run(handler_async(POST, None))
        else:
            handler(POST, None)

    assert frames_of(constant) == 0


def test_an_answer_for_a_failed_condition_keeps_no_request() -> None:
    """`otherwise=` is raised anew each time, also where the handler catches it."""
    taken = Final(409, {"error": "taken"})
    seen: list[int] = []
    store = MemoryStore(holds=lambda _write: False)

    @idempotent(operation="POST /p", tenant=single_tenant(), effects="recorded", store=store)
    def handler(_event: Any, _context: Any, op: Operation) -> Any:
        op.transaction.put("rides", {"id": "1"}, otherwise=taken)
        try:
            op.commit("ride")
        except Final:
            seen.append(frames_of(taken))
        return {"statusCode": 500}

    for _ in range(3):
        handler(POST, None)

    assert len(seen) == 3
    assert len(set(seen)) == 1


def test_a_providers_replay_marks_are_not_ours() -> None:
    """A handler that passes on a provider's headers does not make a first answer look replayed."""
    service = Protected()
    service.then = lambda _event, _op: {
        "statusCode": 500,
        "headers": {"Idempotent-Replayed": "true", "idempotency-expires": "never"},
        "body": "",
    }

    assert set(headers_of(service.send(POST))) == {"idempotency-key"}


@pytest.mark.parametrize("stored", ["{", "[]", "null", '"x"', '{"body": ""}'])
def test_a_damaged_record_is_an_error_and_never_a_second_run(stored: str) -> None:
    """A stored answer that is none: 500 `answer-unavailable`, whatever is wrong with it."""
    service = Protected()
    service.send(POST)
    (record,) = records(service)
    service.store.records[record.pk] = replace(record, response=stored)

    assert problem_of(service.send(POST)) == (500, "answer-unavailable", False)
    assert len(service.runs) == 1


def test_the_memory_store_is_atomic_between_threads() -> None:
    """Four threads and one key: one run, with the interpreter switching as often as it can."""
    service = Protected()
    runs: Counter[str] = Counter()

    def handler(event: Any, _op: object) -> dict[str, Any]:
        runs[event["headers"]["idempotency-key"]] += 1
        return {"statusCode": 200, "body": ""}

    service.then = handler
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for number in range(100):
            barrier = threading.Barrier(4)
            event = with_header(POST, "idempotency-key", f"a-key-of-many-threads-{number}")

            def send(barrier: threading.Barrier = barrier, event: Any = event) -> None:
                barrier.wait()
                service.send(event)

            threads = [threading.Thread(target=send) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)

    assert set(runs.values()) == {1}
    assert len(runs) == 100


@pytest.mark.parametrize(
    "tenant",
    [
        pytest.param(lambda _context: "\ud800", id="a lone surrogate"),
        pytest.param(lambda _context: 7, id="a number"),
        pytest.param(lambda context: context["no such member"], id="a source at a loss"),
    ],
)
def test_a_tenant_that_is_no_name_is_refused(tenant: Any) -> None:
    """What cannot be a name is 403, not a failure of the store or of the handler."""
    assert problem_of(Protected(tenant=tenant).send(POST)) == (403, "tenant-missing", False)


@pytest.mark.parametrize("claim", ["[]", "[acme globex]", "map[a:b]"])
def test_a_list_claim_names_no_tenant(claim: str) -> None:
    """An HTTP API hands lists on as text: all callers with an empty one would share their keys."""
    service = Protected(tenant=jwt_claim("tenant_id"))

    assert problem_of(service.send(with_tenant(POST, claim))) == (403, "tenant-missing", False)


def test_sessions_of_one_role_are_one_caller() -> None:
    """A retry from another host, with the session name of that host, finds the first answer."""
    service = Protected(tenant=iam_principal())
    event = load("function_url_post")
    iam = event["requestContext"]["authorizer"]["iam"]
    role = "arn:aws:sts::123456789012:assumed-role/Payer"
    for session in ("task-1", "task-2"):
        iam["userArn"] = f"{role}/{session}"
        service.send(event)
    iam["userArn"] = "arn:aws:iam::123456789012:user/payer"
    service.send(event)

    assert [run.tenant for run in service.runs] == [role, "arn:aws:iam::123456789012:user/payer"]


def test_null_members_of_an_event_are_absent_ones() -> None:
    """A REST event with null query values is served; a context that is none is told."""
    service = Protected()
    event = load("apigw_rest_v1_post")
    event["multiValueQueryStringParameters"] = {"a": [None], "b": None}

    assert service.send(event)["statusCode"] == 201
    with pytest.raises(TypeError, match="is no HTTP request"):
        service.send(POST | {"requestContext": {"http": None}})


def test_a_preflight_without_a_caller_is_refused_like_any_request() -> None:
    """A preflight brings no token: it is for the gateway to answer, and runs for nobody here."""
    service = Protected(tenant=lambda context: context["authorizer"]["no such claim"])
    preflight = with_header(with_route(POST, "OPTIONS", "/payments"), "origin", "https://a.example")

    answer = service.send(with_header(preflight, "access-control-request-method", "POST"))

    assert problem_of(answer) == (403, "tenant-missing", False)
    assert service.runs == []


def test_what_passes_through_needs_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GET works where no table is configured."""
    monkeypatch.delenv("ONCEKEY_TABLE", raising=False)

    @idempotent(operation="any", tenant=single_tenant())
    def handler(_event: dict[str, Any], _context: object) -> str:
        return "ran"

    assert handler(with_route(POST, "GET", "/payments"), None) == "ran"
