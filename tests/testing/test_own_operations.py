"""`assert_idempotent` wants an effect of each operation of another tenant or key."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Operation, idempotent
from oncekey.testing import assert_idempotent
from tests.support.mistaken_handlers import (
    OPERATION,
    TENANT,
    Provider,
    charged,
    created,
    order_event,
    random_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Event = dict[str, Any]
Answer = dict[str, Any]


def _remembering(charges: list[str], name_of: Callable[[Event], str]) -> Callable[..., Answer]:
    known: dict[str, str] = {}

    @idempotent(operation=OPERATION, tenant=TENANT)
    def order(event: Event, _context: object) -> Answer:
        name = name_of(event)
        if name not in known:
            charges.append(name)
            known[name] = random_id()
        return created(charge=known[name])

    return order


@pytest.mark.parametrize("is_given", [False, True])
def test_an_answer_that_leaks_to_another_tenant_is_found(is_given: bool) -> None:
    """A cache by the client's key gives a tenant the answer of another one, and does nothing."""
    charges: list[str] = []
    order = _remembering(charges, lambda event: str(event["headers"]["idempotency-key"]))
    other = order_event()
    other["requestContext"]["authorizer"]["jwt"]["claims"]["tenant_id"] = "umbrella"
    with pytest.raises(AssertionError, match="remembers an earlier one") as caught:
        assert_idempotent(
            order, order_event(), effects=charges, other_tenant=other if is_given else None
        )
    assert "play:    another tenant" in str(caught.value)
    assert "it got the first answer, and had no effect" in str(caught.value)


def test_an_answer_that_is_kept_for_another_key_is_found() -> None:
    """A cache by the body swallows what the client asks for again under another key."""
    charges: list[str] = []
    order = _remembering(charges, lambda event: str(event["body"]))

    with pytest.raises(AssertionError, match="remembers an earlier one") as caught:
        assert_idempotent(order, order_event(), effects=charges, only="another key")
    assert "play:    another key" in str(caught.value)


@pytest.mark.parametrize("is_seen", [False, True])
def test_a_constant_answer_is_no_fault(is_seen: bool) -> None:
    """Equal answers are no fault if each operation has its effect, or if none is looked at."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def order(_event: Event, _context: object, op: Operation) -> Answer:
        charged(op, provider)
        return created(done=True)

    played = assert_idempotent(order, order_event(), effects=provider.done if is_seen else None)
    assert {"another key", "another tenant"} <= {*played}


def test_an_effect_of_a_changed_header_is_found() -> None:
    """A replay has no effect, whatever its other headers are."""
    charges: list[str] = []
    agents = set()

    @idempotent(operation=OPERATION, tenant=TENANT)
    def protected(_event: Event, _context: object) -> Answer:
        return created(charge="ch_1")

    def order(event: Event, context: object) -> Answer:
        answer = protected(event, context)
        agent = event["headers"]["user-agent"], event["headers"]["idempotency-key"]
        if agent not in agents:
            agents.add(agent)
            charges.append("ch_1")
        return answer

    with pytest.raises(AssertionError, match="more effects"):
        assert_idempotent(order, order_event(), effects=charges, only="changed headers")


def test_a_batch_handler_without_a_context_is_told_to_give_one() -> None:
    """Nothing was reserved, and the remedy names the cause that a batch handler hides."""

    def swallowing(_event: Event, _context: object) -> Answer:
        return {"batchItemFailures": [{"itemIdentifier": "1"}]}

    with pytest.raises(AssertionError, match="if it is a batch handler, give context="):
        assert_idempotent(swallowing, {"Records": [{"messageId": "1"}]})


def test_an_open_operation_is_escalated_once_in_a_play(caplog: pytest.LogCaptureFixture) -> None:
    """A play does not let weeks pass only to hear of the same operation again."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT)
    def order(_event: Event, _context: object) -> Answer:
        return created(charge=provider.charge())

    with caplog.at_level(logging.ERROR, "oncekey"):
        assert_idempotent(order, order_event(), effects=provider.done, only="kill before complete")
    told = [each for each in caplog.records if vars(each).get("oncekey_event") == "escalated"]
    assert len(told) == 1
