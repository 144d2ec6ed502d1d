"""What is measured: each case is a request, what happened under its key before, and its answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.events import load, with_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.events import Event

TABLE = "idempotency"


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

    `before` is what happened under the key: `nothing`, `answered`, or `running` (the first attempt
    has not ended). `status` is what the caller gets.
    """

    name: str
    says: str
    before: str = "nothing"
    status: int = 201
    options: Mapping[str, Any] = field(default_factory=dict)

    def work(self, _event: Event) -> dict[str, Any]:
        """What the handler returns."""
        return {
            "statusCode": 201,
            "headers": {"Content-Type": "application/json", "Location": "/payments/ch_1"},
            "body": json.dumps({"payment_id": "ch_1", "amount": 1200, "status": "succeeded"}),
        }

    def events(self, count: int) -> list[Event]:
        """So many requests, each with a key of its own."""
        event = load("apigw_http_v2_post")
        return [with_key(event, key_of(number)) for number in range(count)]


def key_of(number: int) -> str:
    """The key of a request."""
    return f"8e03978e-40d5-43e8-bc93-{number:012d}"


CASES = {
    case.name: case
    for case in (
        Case("first-call", "a new key: reserved, run, answer stored"),
        Case("replay", "a key whose answer is stored", before="answered"),
        Case("duplicate", "a key whose first call still runs: 409", before="running", status=409),
    )
}
