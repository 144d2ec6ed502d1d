"""`assert_idempotent` against correct handlers of every kind, and against rarer mistakes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver

from oncekey import (
    STRIPE,
    Completed,
    NotExecuted,
    Operation,
    Question,
    current_operation,
    idempotent,
    idempotent_function,
    resolver,
    single_tenant,
)
from oncekey.powertools import idempotent_route
from oncekey.record.transitions import Reserve, Transition
from oncekey.testing import MemoryStore, assert_idempotent
from tests.support.events import load
from tests.support.mistaken_handlers import (
    OPERATION,
    TENANT,
    Provider,
    charged,
    created,
    order_event,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.store.store import Refused, Written

Event = dict[str, Any]
Answer = dict[str, Any]
SHAPES = [
    *("apigw_http_v2_post", "apigw_http_v2_base64_post", "apigw_rest_v1_post"),
    *("alb_post", "alb_multi_value_post", "function_url_post"),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_handlers_behind_every_gateway_are_checked(shape: str) -> None:
    """In every shape of event, the key and the body are changed where the handler finds them."""
    provider = Provider()

    @idempotent(operation="POST /payments", tenant=single_tenant(), effects="recorded")
    def handler(_event: Event, _context: object, op: Operation) -> Answer:
        return created(charge=charged(op, provider))

    played = assert_idempotent(handler, load(shape), effects=provider.done)
    assert {"another key", "another body", "changed headers"} <= {*played}
    assert "another tenant" not in played


def test_each_call_of_the_store_is_a_play() -> None:
    """The plays before and after each call are named by step and commit, and by their number."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def handler(_event: Event, _context: object, op: Operation) -> Answer:
        op.transaction.put("orders", {"id": op.operation_id})
        op.commit("created")
        charge = op.step("charge", lambda: provider.charge(op.downstream_key("charge")))
        return created(charge=charge)

    played = assert_idempotent(handler, order_event(), effects=provider.done)
    calls = ["reserve", "commit created", "start step charge", "finish step charge", "complete"]
    kills = [f"kill {when} {call}" for call in calls for when in ("before", "after")]
    assert [each for each in played if each.startswith("kill")] == kills


def test_an_unrecorded_handler_may_stay_unknown() -> None:
    """A killed unrecorded attempt is never run again, and that is no fault."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT)
    def handler(_event: Event, _context: object) -> Answer:
        return created(charge=provider.charge())

    assert_idempotent(handler, order_event(), effects=provider.done, failing=provider.down)


@pytest.mark.usefixtures("no_resolvers")
@pytest.mark.parametrize("is_right", [True, False])
def test_resolvers_are_asked_after_a_crash(is_right: bool) -> None:
    """The reconciler goes on where the process died. A resolver that is wrong is found out."""
    provider = Provider()

    @idempotent(operation="POST /asked", tenant=TENANT)
    def handler(_event: Event, _context: object, op: Operation) -> Answer:
        return created(charge=provider.charge(op.operation_id))

    @resolver("POST /asked")
    def what_became_of(question: Question) -> Completed | NotExecuted:
        charge = provider.charge_of(question.operation_id)
        return Completed(created(charge=charge)) if is_right and charge else NotExecuted()

    def check() -> None:
        # A provider that charges again, whatever the key.
        provider.honours_keys = is_right
        assert_idempotent(handler, order_event(), effects=provider.done)

    if is_right:
        check()
    else:
        with pytest.raises(AssertionError, match="one key takes effect once"):
            check()


def test_a_repeatable_handler_must_repeat_without_a_second_effect() -> None:
    """`repeatable` is a promise about the handler's effects, and is checked."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT, effects="repeatable")
    def keyed(_event: Event, _context: object, op: Operation) -> Answer:
        return created(charge=provider.charge(op.downstream_key("charge")))

    @idempotent(operation="POST /unkeyed", tenant=TENANT, effects="repeatable")
    def unkeyed(_event: Event, _context: object) -> Answer:
        return created(charge=provider.charge())

    assert_idempotent(keyed, order_event(), effects=provider.done, failing=provider.down)
    with pytest.raises(AssertionError, match="running again repeats an effect"):
        assert_idempotent(unkeyed, order_event(), effects=provider.done)


def test_a_step_declared_idempotent_must_be() -> None:
    """A step that repeats its effect must not be declared `idempotent=True`."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def handler(_event: Event, _context: object, op: Operation) -> Answer:
        return created(charge=op.step("charge", provider.charge, idempotent=True))

    with pytest.raises(AssertionError, match="idempotent=True repeats its effect"):
        assert_idempotent(handler, order_event(), effects=provider.done)


def test_a_false_proof_is_found() -> None:
    """An error after the effect must not be declared a proof that nothing happened."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT, not_executed=ConnectionError)
    def handler(_event: Event, _context: object) -> Answer:
        charge = provider.charge()
        if provider.loses_answers:
            raise ConnectionError
        return created(charge=charge)

    with pytest.raises(AssertionError, match="says that nothing happened, and something had"):
        assert_idempotent(
            handler, order_event(), effects=provider.done, failing=provider.losing_answers
        )


def test_async_handlers_are_checked() -> None:
    """The same for a coroutine function, also inside a running event loop."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    async def handler(_event: Event, _context: object, op: Operation) -> Answer:
        async def charge() -> str:
            return provider.charge(op.downstream_key("charge"))

        return created(charge=await op.step_async("charge", charge, idempotent=True))

    @idempotent(operation="POST /unkeyed", tenant=TENANT, effects="recorded")
    async def mistaken(_event: Event, _context: object) -> Answer:
        return created(charge=provider.charge())

    async def test() -> None:
        assert "kill after finish step charge" in assert_idempotent(
            handler, order_event(), effects=provider.done
        )
        with pytest.raises(AssertionError, match="an outside effect without a step"):
            assert_idempotent(mistaken, order_event(), effects=provider.done)

    asyncio.run(test())


def test_functions_are_checked_with_what_their_key_means() -> None:
    """For a function, the test gives the other argument that must be refused."""
    provider = Provider()

    @idempotent_function(
        operation="charge",
        key=lambda order: order["id"],
        tenant=lambda order: order["tenant"],
        fingerprint=lambda order: order["amount"],
        effects="repeatable",
    )
    def charge(order: dict[str, Any]) -> str:
        return provider.charge(order["tenant"] + order["id"])

    order = {"id": "order-1", "tenant": "acme", "amount": 5}
    played = assert_idempotent(
        charge,
        order,
        effects=lambda: len(provider.done),
        reset=provider.reset,
        other_body={**order, "amount": 6},
    )
    assert {"another body", "another tenant", "five at once"} <= {*played}


def test_a_function_whose_key_is_its_whole_argument_is_found() -> None:
    """The other argument has the same id, and must not be another operation."""
    provider = Provider()

    @idempotent_function(operation="charge-all", key=str, tenant=single_tenant())
    def charge(order: dict[str, Any]) -> str:
        return provider.charge(order["id"])

    order = {"id": "order-1", "amount": 5}
    with pytest.raises(AssertionError, match="taken from more than what identifies the call"):
        assert_idempotent(
            charge,
            order,
            effects=lambda: len(provider.done),
            reset=provider.reset,
            other_body={**order, "amount": 6},
        )


def test_a_handler_that_catches_everything_is_killed_all_the_same() -> None:
    """What a dead process says or writes does not count."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def handler(_event: Event, _context: object, op: Operation) -> Answer:
        try:
            return created(charge=charged(op, provider))
        except BaseException as error:  # noqa: BLE001 -- the mistake that is meant
            return created(error=type(error).__name__)

    assert "kill after finish step charge" in assert_idempotent(
        handler, order_event(), effects=provider.done
    )


def test_the_plays_are_what_they_are_called() -> None:
    """Requests at once do meet, and a killed process leaves a lease that a retry takes over."""
    provider = Provider()
    kinds: list[str] = []

    @idempotent(
        operation=OPERATION,
        tenant=TENANT,
        effects="recorded",
        on_event=lambda event: kinds.append(event.kind),
    )
    def handler(_event: Event, _context: object, op: Operation) -> Answer:
        return created(charge=charged(op, provider))

    arguments: dict[str, Any] = {"effects": provider.done}
    assert_idempotent(handler, order_event(), **arguments, only="five at once")
    assert {"conflict", "replay"} <= {*kinds}
    assert "takeover" not in kinds
    assert_idempotent(handler, order_event(), **arguments, only="kill before finish step charge")
    assert "takeover" in kinds


def _queued(run: Callable[[Operation], Answer]) -> Callable[[Event, object], Answer]:
    @idempotent(operation="POST /reports", tenant=TENANT, effects="recorded", mode="queued")
    def report(_event: Event, _context: object, op: Operation) -> Answer:
        return run(op)

    return report


def test_queued_handlers_are_checked_with_their_worker() -> None:
    """The messages go to a worker, which is killed like the request."""
    provider = Provider()
    handler = _queued(lambda op: created(charge=charged(op, provider)))
    played = assert_idempotent(handler, order_event(), effects=provider.done)
    assert {"kill after reserve", "kill after begin", "kill before complete"} <= {*played}
    mistaken = _queued(lambda _op: created(charge=provider.charge()))
    with pytest.raises(AssertionError, match="an outside effect without a step"):
        assert_idempotent(mistaken, order_event(), effects=provider.done)


def test_a_router_is_checked_with_the_jobs_that_it_accepts() -> None:
    """Where the handler is not the queued function itself, the test names that function."""
    provider = Provider()
    report = _queued(lambda op: created(charge=charged(op, provider)))

    def router(event: Event, context: object) -> Answer:
        return report(event, context)

    played = assert_idempotent(router, order_event(), effects=provider.done, jobs=[report])
    assert "kill after begin" in played


def test_powertools_routes_are_checked() -> None:
    """A resolver is a handler like another."""
    provider = Provider()
    app = APIGatewayHttpResolver()
    app.use(middlewares=[idempotent_route(tenant=TENANT, effects="recorded")])

    @app.post("/orders")
    def order() -> tuple[dict[str, str], int]:
        return {"charge": charged(current_operation(), provider)}, 201

    event = order_event()
    event["requestContext"]["stage"] = "$default"

    def handler(event: Event, context: object) -> Answer:
        answer: Answer = app.resolve(event, context)  # type: ignore[arg-type]
        return answer

    played = assert_idempotent(handler, event, effects=provider.done)
    assert {"another body", "another tenant", "kill after complete"} <= {*played}


def test_presets_may_store_failures() -> None:
    """The Stripe preset stores any answer, and refuses a reused key with 400."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded", preset=STRIPE)
    def handler(_event: Event, _context: object, op: Operation) -> Answer:
        return created(charge=charged(op, provider))

    assert_idempotent(handler, order_event(), effects=provider.done, failing=provider.down)


def test_redacted_answers_are_compared_as_they_are_stored() -> None:
    """`before_store` may change the answer that replays repeat."""

    def redacted(answer: Answer) -> Answer:
        return {**answer, "body": "{}"}

    @idempotent(operation=OPERATION, tenant=TENANT, effects="repeatable", before_store=redacted)
    def handler(_event: Event, _context: object) -> Answer:
        return created(secret="s")

    assert_idempotent(handler, order_event())


def test_a_fingerprint_must_tell_requests_apart() -> None:
    """If no other body is refused, the fingerprint selects nothing."""

    @idempotent(operation=OPERATION, tenant=TENANT, effects="repeatable", fingerprint=lambda _: 1)
    def handler(_event: Event, _context: object) -> Answer:
        return created()

    with pytest.raises(AssertionError, match="the fingerprint leaves out what was changed"):
        assert_idempotent(handler, order_event())


def test_what_cannot_be_checked_is_said() -> None:
    """A test that would check nothing fails, with a reason."""

    def bare(_event: Event, _context: object) -> Answer:
        return created()

    @idempotent(operation=OPERATION, tenant=TENANT)
    def failing(_event: Event, _context: object) -> Answer:
        raise ValueError("amount")

    @idempotent(operation="POST /without-effect", tenant=TENANT)
    def handler(_event: Event, _context: object) -> Answer:
        return created()

    with pytest.raises(AssertionError, match="did not reserve its key"):
        assert_idempotent(bare, order_event())
    with pytest.raises(AssertionError, match="(?s)403 .*refused before a key is reserved"):
        assert_idempotent(
            failing, {**order_event(), "requestContext": {"http": {"method": "POST"}}}
        )
    words = "(?s)cannot be checked.*ValueError: amount.*not lead to a final answer"
    with pytest.raises(AssertionError, match=words) as caught:
        assert_idempotent(failing, order_event())
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(AssertionError, match="counted nothing"):
        assert_idempotent(handler, order_event(), effects=[])
    with pytest.raises(ValueError, match="no play 'kill after lunch'.*kill after complete"):
        assert_idempotent(handler, order_event(), only="kill after lunch")


def test_the_message_says_what_broke_where_and_how_to_play_it_again() -> None:
    """One message: promise, play, what was seen, likely mistake, remedy, and the line to run."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def order(_event: Event, _context: object) -> Answer:
        return created(charge=provider.charge())

    with pytest.raises(AssertionError) as caught:
        assert_idempotent(order, order_event(), effects=provider.done)
    lines = str(caught.value).splitlines()
    assert lines[:4] == [
        "order is not idempotent",
        "  promise: one key takes effect once",
        "  play:    kill before complete",
        "  seen:    2 effects, expected 1",
    ]
    again = "assert_idempotent(order, event, ..., only='kill before complete')"
    assert lines[-1] == f"  again:   {again}"
    assert "op.step('charge'" in lines[-2]


def test_an_own_store_can_be_played() -> None:
    """`store=` makes the store of each play."""
    made: list[MemoryStore] = []

    def make() -> MemoryStore:
        made.append(MemoryStore())
        return made[-1]

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def handler(_event: Event, _context: object, op: Operation) -> Answer:
        op.transaction.put("orders", {"id": op.operation_id})
        return created()

    assert_idempotent(handler, order_event(), store=make, only="again")
    assert [len(store.writes) for store in made] == [1, 1]


class _LetsTwoIn(MemoryStore):
    """A store whose reserve forgets who holds the key."""

    def write(self, transition: Transition) -> Written | Refused:
        if isinstance(transition, Reserve):
            self.records.pop(transition.pk, None)
        return super().write(transition)


def test_races_are_found_and_named_by_a_seed() -> None:
    """Of five requests at once, two that run are one too many; the seed repeats the race."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT)
    def handler(_event: Event, _context: object) -> Answer:
        return created(charge=provider.charge())

    arguments: dict[str, Any] = {"effects": provider.done, "store": _LetsTwoIn}
    with pytest.raises(
        AssertionError, match="the store lets two requests reserve one key"
    ) as caught:
        assert_idempotent(handler, order_event(), **arguments, only="five at once")
    assert str(caught.value).endswith("only='five at once', seed=0)")
