"""A transaction that writes the same record at the same moment: DynamoDB refuses the other write.

It says nothing of the record's condition, so that it is no refusal.
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_UpdateItem.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from oncekey.record.record import Status
from tests.support.protected import fails, is_replay
from tests.support.steps import POST, step

if TYPE_CHECKING:
    from tests.support.recorded import World


def conflict_at(world: World, operation: str, number: int) -> None:
    """Refuse the call of `operation` with this number, from 1, as another transaction's."""
    calls: list[None] = []

    def conflict(**_: Any) -> None:
        calls.append(None)
        if len(calls) == number:
            error: Any = {"Error": {"Code": "TransactionConflictException", "Message": "ongoing"}}
            raise ClientError(error, operation)

    world.client.meta.events.register(f"before-call.dynamodb.{operation}", conflict)


@pytest.mark.parametrize("effects", ["unrecorded", "repeatable", "recorded"])
def test_a_completion_that_meets_a_transaction_is_sent_again(world: World, effects: str) -> None:
    """A completing write that conflicts is sent again, and the answer is on record.

    Red when a conflict is taken for a refusal: the record would stay open behind a finished run.
    """
    service = world.service(effects=effects)
    conflict_at(world, "UpdateItem", 1)

    answer = service.sends()

    assert answer["statusCode"] == 201
    assert world.record.status is Status.COMPLETED
    assert is_replay(service.send(POST))


@pytest.mark.parametrize("write", [1, 2, 3], ids=["start", "finish", "complete"])
def test_a_step_whose_write_meets_a_transaction_goes_on(world: World, write: int) -> None:
    """The start and the finish of a step are sent again as well; the step runs once.

    Red when a conflict stops the run, or is taken for a write that has landed.
    """
    service = world.service()
    conflict_at(world, "UpdateItem", write)

    answer = service.sends(step("charge"))

    assert answer["statusCode"] == 201
    assert service.ran == ["charge"]
    assert world.record.status is Status.COMPLETED


def test_a_release_that_meets_a_transaction_is_sent_again(world: World) -> None:
    """What is proven not to have been executed is released all the same."""
    service = world.service(effects="unrecorded", not_executed=(ValueError,))
    service.then = fails(ValueError("refused"))
    conflict_at(world, "UpdateItem", 1)

    assert service.send(POST)["statusCode"] == 503
    assert world.record.status is Status.FAILED_RETRYABLE


def test_a_reserve_that_meets_a_transaction_is_sent_again(world: World) -> None:
    """A reserve that conflicts is sent again, and its handler runs once."""
    service = world.service()
    conflict_at(world, "PutItem", 1)

    assert service.sends()["statusCode"] == 201
    assert len(service.runs) == 1
