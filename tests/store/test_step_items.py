"""The form of steps in the table, and what a new attempt makes of what it finds there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey.record.record import Effects, Status
from oncekey.record.steps import NO_STEPS, FinishedStep
from oncekey.record.transitions import FinishStep, Reserve, Resume, StartStep, TakeOver, seen
from oncekey.store.dynamodb import expressions
from oncekey.store.dynamodb.codec import attribute_values, record_from_item
from oncekey.store.dynamodb.expressions import update_parameters
from oncekey.store.store import Written
from tests.support.dynamodb import TABLE, items, store_on
from tests.support.records import FINISHED, NOW_MS, REACHED, STARTED, STEPS, record
from tests.support.replacing import replace
from tests.support.transition_rows import LEASE, PK, RECORDED_LEASE

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from oncekey.record.record import Record
    from oncekey.store.store import Store

OWNER = record().owner
RUNNING = record(effects=Effects.RECORDED)
DEAD = replace(RUNNING, lease_until_ms=NOW_MS - 1)
# Of a record with two finished steps and one in doubt.
FORM = {
    "finished": {
        "M": {
            FINISHED.name: {
                "M": {
                    "position": {"N": "0"},
                    "at": {"N": str(FINISHED.at_ms)},
                    "result": {"S": FINISHED.result},
                }
            },
            REACHED.name: {"M": {"position": {"N": "1"}, "at": {"N": str(REACHED.at_ms)}}},
        }
    },
    "started": {
        "M": {
            "name": {"S": STARTED.name},
            "position": {"N": "2"},
            "mark": {"N": str(STARTED.mark)},
            "at": {"N": str(STARTED.at_ms)},
        }
    },
}


def test_the_form_of_steps_in_the_table_is_the_contract(client: DynamoDBClient) -> None:
    """Tables in use hold steps in this form, whole records and single writes alike."""
    whole = replace(RUNNING, steps=STEPS["finished and started"])

    assert attribute_values(whole)["steps"] == {"M": FORM}

    client.put_item(TableName=TABLE, Item=attribute_values(RUNNING))
    store = store_on(client)
    for step in (FINISHED, REACHED):
        assert store.write(FinishStep(pk=PK, owner=OWNER, step=step, mark=None)) == Written()
    assert store.write(StartStep(pk=PK, owner=OWNER, step=STARTED)) == Written()
    assert item(client)["steps"] == {"M": FORM}


def test_a_step_that_ended_the_operation_says_so_in_the_table() -> None:
    """`final` is there for such a step alone, and its result is what any answer is."""
    ended = FinishedStep(name="ended", position=3, at_ms=NOW_MS, result=b"1", is_final=True)

    value = attribute_values(replace(RUNNING, steps=NO_STEPS.finishing(ended)))["steps"]

    assert value["M"]["finished"]["M"]["ended"]["M"] == {
        "position": {"N": "3"},
        "at": {"N": str(NOW_MS)},
        "result": {"B": b"1"},
        "final": {"BOOL": True},
    }


def test_only_what_is_recorded_pays_for_steps() -> None:
    """An item of other effects has no attribute that says nothing; a recorded one has its map."""
    for effects in Effects:
        has_steps = "steps" in attribute_values(record(effects=effects))
        assert has_steps is (effects is Effects.RECORDED)


@pytest.mark.parametrize("restart", ["resume", "takeover"])
def test_a_record_without_steps_gets_them_with_its_recorded_attempt(
    client: DynamoDBClient, restart: str
) -> None:
    """A record of an earlier release, or of other effects, can hold steps from its next attempt on.

    Red when a restart leaves an absent `steps` absent: DynamoDB sets no path into nothing.
    """
    old = replace(DEAD, status=Status.FAILED_RETRYABLE if restart == "resume" else DEAD.status)
    without = attribute_values(old)
    del without["steps"]
    client.put_item(TableName=TABLE, Item=without)
    store = store_on(client)

    assert store.write(restarting(restart, old)) == Written()
    assert item(client)["steps"] == {"M": {"finished": {"M": {}}}}
    assert store.write(StartStep(pk=PK, owner=RECORDED_LEASE.owner, step=STARTED)) == Written()
    assert record_from_item(item(client)).steps.started == STARTED


@pytest.mark.requirement("E1")
@pytest.mark.parametrize("restart", ["resume", "takeover"])
def test_a_restart_keeps_the_steps_that_are_there(store: Store, restart: str) -> None:
    """What the dead attempt has finished is on record for the next one, in either store.

    Red when a restart sets `steps` in place of asking whether it is there.
    """
    old = replace(
        DEAD,
        status=Status.FAILED_RETRYABLE if restart == "resume" else DEAD.status,
        steps=STEPS["finished"],
    )

    store.write(Reserve(record=old, now_ms=NOW_MS))

    assert store.write(restarting(restart, old)) == Written()
    found = store.read(PK)
    assert found is not None
    assert found.steps == STEPS["finished"]


def test_a_restart_of_other_effects_asks_for_no_steps() -> None:
    """An attempt whose effects are not recorded leaves the record as small as it was."""
    for restart in ("resume", "takeover"):
        transition = replace(restarting(restart, DEAD), lease=LEASE)
        assert "steps" not in update_parameters(TABLE, transition)["UpdateExpression"]


def restarting(restart: str, old: Record) -> Resume | TakeOver:
    """The next attempt, which records its effects."""
    if restart == "resume":
        return Resume(pk=PK, seen=seen(old), lease=RECORDED_LEASE)
    return TakeOver(pk=PK, seen=seen(old), lease=RECORDED_LEASE, now_ms=NOW_MS)


def item(client: DynamoDBClient) -> dict[str, Any]:
    """The only item of the table."""
    (found,) = items(client)
    return found


def test_the_names_of_steps_take_no_room_in_a_sandbox() -> None:
    """What is computed once for a kind of write is the same for every name of a step.

    Red when the name of a step is a part of it: a sandbox would fill with the names it has seen.
    """

    def write(name: str) -> None:
        step = replace(FINISHED, name=name)
        update_parameters(TABLE, FinishStep(pk=PK, owner=OWNER, step=step, mark=1))

    write("charge")
    size = expressions._template.cache_info().currsize
    for number in range(100):
        write(f"charge-{number}")

    assert expressions._template.cache_info().currsize == size
