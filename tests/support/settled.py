"""An operation in doubt, and somebody who settles it from outside, by what they know."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, NotExecuted, Settlement, settle
from tests.support.protected import Protected, fails, records
from tests.support.steps import POST

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER: Any = {"statusCode": 201, "body": json.dumps({"id": "re_1"})}


def says(service: Protected, finding: Completed | NotExecuted) -> Callable[[], Settlement]:
    """Somebody settles the only operation, by its reference."""

    def saying() -> Settlement:
        (record,) = records(service)
        reference = f"{record.pk}.{record.operation_id}"
        return settle(
            reference,
            finding,
            found_at_ms=service.clock.now_ms(),
            store=service.store,
            clock=service.clock,
        )

    return saying


def in_doubt(**options: Any) -> Protected:
    """A handler whose only run raised."""
    service = Protected(**options)
    service.then = fails(TimeoutError())
    with pytest.raises(TimeoutError):
        service.send(POST)
    service.then = None
    return service


def the(service: Any) -> Any:
    """The only record of a service."""
    (record,) = service.store.records.values()
    return record
