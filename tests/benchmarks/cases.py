"""What is measured: each case is a request, what happened under its key before, and its answer."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.events import load, with_body, with_key

if TYPE_CHECKING:
    from tests.support.events import Event

TABLE, OUTBOX, PAYMENTS = "idempotency", "outbox", "payments"


class Context:
    """A Lambda context with the longest deadline, so that no lease ends during a run."""

    aws_request_id = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"
    function_name = "payments"

    def get_remaining_time_in_millis(self) -> int:
        """As in Lambda."""
        return 900_000


@dataclass(frozen=True)
class Case:
    """One case.

    Args:
        name: as on the command line.
        description: what it is, for the report.
        before: what happened under the key: `nothing`, `answered`, or `running` (the first attempt
            has not ended).
        work: what the handler does: `answer`, a `transaction` with one business write and one
            message, or three `steps`; or `function` for a call that is no request.
        body_items: how many items the request lists.
        answer_items: how many items the answer lists.
        status: what the caller gets.
    """

    name: str
    description: str
    before: str = "nothing"
    work: str = "answer"
    body_items: int = 0
    answer_items: int = 0
    status: int = 201

    def events(self, count: int) -> list[Event]:
        """So many requests, or arguments of the function, each with a key of its own."""
        keys = [f"8e03978e-40d5-43e8-bc93-{number:012d}" for number in range(count)]
        if self.work == "function":
            return [{"invoice_id": key, "total": "12.00", "currency": "eur"} for key in keys]
        event = load("apigw_http_v2_post")
        if self.body_items:
            order = json.loads(event["body"]) | {"items": _items(self.body_items)}
            event = with_body(event, json.dumps(order))
        return [with_key(event, key) for key in keys]

    def key(self, event: Event) -> str:
        """The key of an event of this case."""
        key: str = (event if self.work == "function" else event["headers"])[
            "invoice_id" if self.work == "function" else "idempotency-key"
        ]
        return key

    def answer(self) -> dict[str, Any]:
        """What the handler, or the function, returns."""
        if self.work == "function":
            return {"booking_id": "b_1", "amount": 1200, "currency": "eur"}
        payment: dict[str, Any] = {"payment_id": "ch_1", "amount": 1200, "status": "succeeded"}
        if self.answer_items:
            payment["items"] = _items(self.answer_items)
        return {
            "statusCode": 201,
            "headers": {"Content-Type": "application/json", "Location": "/payments/ch_1"},
            "body": json.dumps(payment),
        }

    def is_answered_by(self, answer: Any) -> bool:
        """Whether `answer` is what the caller should get."""
        expected = self.answer()
        if self.work == "function":
            return bool(answer == expected)
        if self.status != expected["statusCode"]:
            return bool(answer["statusCode"] == self.status)
        return bool(answer["statusCode"] == self.status and answer["body"] == expected["body"])


def _items(count: int) -> list[dict[str, Any]]:
    """Lines of an order, about 150 bytes each, that compress as usual JSON does."""
    draw = random.Random(1)  # noqa: S311 -- the same lines in every run
    return [
        {
            "id": f"item_{draw.getrandbits(96):024x}",
            "description": f"Article {draw.getrandbits(32)}",
            "quantity": draw.getrandbits(4),
            "unit_amount": draw.getrandbits(16),
            "tax_rate_id": f"txr_{draw.getrandbits(64):016x}",
        }
        for _ in range(count)
    ]


CASES = {
    case.name: case
    for case in (
        Case("first-call", "a new key: reserved, run, answer stored"),
        Case("replay", "the key's answer is stored", before="answered"),
        Case("duplicate", "the key's first call still runs: 409", before="running", status=409),
        Case("transaction", "a new key; one business write and one message", work="transaction"),
        Case("three-steps", "a new key; three recorded steps", work="steps"),
        Case("large-answer", "a new key; an answer of 20 KB", answer_items=136),
        Case("large-replay", "a stored answer of 20 KB", before="answered", answer_items=136),
        Case("large-body", "a new key; a body of 64 KB", body_items=436),
        Case("large-body-replay", "the same, answered before", before="answered", body_items=436),
        Case("function", "a function's first call", work="function"),
        Case("function-replay", "a function's stored result", before="answered", work="function"),
    )
}
