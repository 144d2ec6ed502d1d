"""Somebody who settles an operation from outside, by what they know."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from oncekey import Completed, NotExecuted, Settlement, settle
from tests.support.protected import Protected, records

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER: Any = {"statusCode": 201, "body": json.dumps({"id": "re_1"})}


def says(service: Protected, finding: Completed | NotExecuted) -> Callable[[], Settlement]:
    """Somebody settles the only operation, by its reference."""

    def saying() -> Settlement:
        (record,) = records(service)
        reference = f"{record.pk}.{record.operation_id}"
        return settle(reference, finding, store=service.store, clock=service.clock)

    return saying
