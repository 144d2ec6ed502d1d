"""The documented resolver of a whole operation, its reconciler and its event, word for word."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Operation, idempotent, jwt_claim
from oncekey.clock import SystemClock
from oncekey.settlement import resolvers
from tests.support.documents import run_example
from tests.support.dynamodb import TABLE, dynamodb_table
from tests.support.events import load, with_header, with_tenant

if TYPE_CHECKING:
    from tests.support.events import Event


class Withdrawals:
    """A handler whose process always dies, its provider, and what the example makes of them."""

    def __init__(self) -> None:
        self.later_ms = 0
        self.began: list[Operation] = []
        self.made: dict[str, dict[str, Any]] = {}
        self.example = run_example(
            "layer/docs/guides/unknown-outcomes.md", "POST /withdrawals", find_made=self.find_made
        )

    def find_made(self, operation_id: str, since_ms: int) -> dict[str, Any] | None:
        """The provider's list."""
        assert since_ms > 0
        return self.made.get(operation_id)

    def ask(self, key: str) -> dict[str, Any]:
        """A client's request; its handler dies, if it runs."""

        @idempotent(operation="POST /withdrawals", tenant=jwt_claim("tenant_id"))
        def withdraw(event: Event, context: object, op: Operation) -> dict[str, Any]:
            del event, context
            self.began.append(op)
            raise TimeoutError

        event = with_tenant(load("apigw_http_v2_post"), "acme")
        answer: dict[str, Any] = withdraw(with_header(event, "idempotency-key", key), None)
        return answer

    def dies(self, key: str) -> Operation:
        """The operation of a request whose handler died, and whose retry is told so."""
        with pytest.raises(TimeoutError):
            self.ask(key)
        assert "outcome-unknown" in self.ask(key)["body"]
        return self.began[-1]

    def reconciles(self) -> dict[str, Any]:
        """The numbers of a run of the reconciler, a quarter of an hour later."""
        self.later_ms += 15 * 60_000
        numbers: dict[str, Any] = self.example["reconciler_handler"]({}, None)
        return numbers


def test_what_is_unknown_is_settled_by_the_documented_resolver_and_by_its_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The example gives the client of a dead handler the answer where the provider made
    the withdrawal, lets the key run where it did not, and waits where it does not know yet; then
    the provider's event settles it.
    """
    monkeypatch.setattr(resolvers, "_resolvers", {})
    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    present_ms = SystemClock.now_ms
    first, second = "withdrawal-one-of-16", "withdrawal-two-of-16"
    with dynamodb_table():
        service = Withdrawals()
        monkeypatch.setattr(
            SystemClock, "now_ms", lambda clock: present_ms(clock) + service.later_ms
        )
        made = service.dies(first)
        service.made[made.operation_id] = {"id": "w_1", "state": "sent"}
        assert service.reconciles()["settled"] == 1
        found = service.ask(first)

        service.dies(second)
        assert service.reconciles()["settled"] == 1
        again = service.dies(second)
        queued = {"id": "w_2", "state": "queued", "metadata": {"reference": again.reference}}
        service.made[again.operation_id] = queued
        assert service.reconciles()["still_unknown"] == 1
        assert "outcome-unknown" in service.ask(second)["body"]
        service.example["on_event"]({**queued, "state": "sent"})
        told = service.ask(second)

    assert [each["statusCode"] for each in (found, told)] == [201, 201]
    assert json.loads(found["body"]) == {"withdrawal_id": "w_1", "state": "sent"}
    assert json.loads(told["body"]) == {"withdrawal_id": "w_2", "state": "sent"}
    assert [each.attempt for each in service.began] == [1, 1, 2]
