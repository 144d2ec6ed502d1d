"""A person settles operations with the operator's action, and the audit says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, NotExecuted, StoreError
from oncekey.record.record import Due, Effects, Status
from oncekey.settlement.settlement import Settlement
from oncekey.store.dynamodb.codec import attribute_values
from oncekey.testing.memory import MemoryStore
from oncekey_operator.actions.settling import settle
from oncekey_operator.commands.naming import census, check_census
from oncekey_operator.exits import CommandError
from oncekey_operator.records.outlook import outlook
from tests.support.dynamodb import TABLE
from tests.support.noted_lines import WHO, WHY, Noted, operator
from tests.support.operating import operating
from tests.support.protected import fails
from tests.support.records import NOW_MS, STEPS, every_record, record
from tests.support.replacing import replace
from tests.support.settled import ANSWER, in_doubt, the
from tests.support.steps import POST

if TYPE_CHECKING:
    from oncekey.record.record import Record

LONG_MS = 3_600_000


def test_a_completed_operation_gives_its_client_the_answer() -> None:
    """The answer that the person gave is replayed; two audit lines have who, why and the states."""
    service, noted = in_doubt(), Noted()

    settled = settle(operator(service.store, service.clock, noted), the(service), Completed(ANSWER))

    assert settled.is_done
    assert service.send(POST)["body"] == ANSWER["body"]
    first, second = noted.lines
    assert (first.outcome, first.before, first.after) == ("intended", "UNKNOWN", "")
    assert (second.outcome, second.before, second.after) == ("settled", "UNKNOWN", "COMPLETED")
    assert {(each.who, each.why, each.action_id) for each in noted.lines} == {
        (WHO, WHY, first.action_id)
    }


def test_not_executed_is_refused_until_no_call_can_arrive() -> None:
    """Before the grace is over it is too early; after it, the key runs again."""
    service, noted = in_doubt(), Noted()
    acting = operator(service.store, service.clock, noted)

    early = settle(acting, the(service), NotExecuted())
    service.clock.advance(LONG_MS)
    late = settle(acting, the(service), NotExecuted())

    assert (early.settlement, late.settlement) == (Settlement.TOO_EARLY, Settlement.SETTLED)
    assert noted.outcomes() == ["intended", "too-early", "intended", "settled"]
    assert service.send(POST)["statusCode"] == 201


def test_a_finding_about_one_attempt_settles_no_later_one() -> None:
    """What is certain of the attempt that a person looked at says nothing about the next one."""
    service, noted = in_doubt(), Noted()
    acting, looked_at = operator(service.store, service.clock, noted), the(service)
    service.clock.advance(LONG_MS)
    settle(acting, looked_at, NotExecuted())
    service.then = fails(TimeoutError())
    with pytest.raises(TimeoutError):
        service.send(POST)
    service.clock.advance(LONG_MS)

    stale = settle(acting, looked_at, NotExecuted())

    assert (stale.settlement, the(service).status) == (Settlement.OVERTAKEN, Status.UNKNOWN)
    assert noted.lines[-1].outcome == "overtaken"
    assert settle(acting, the(service), NotExecuted()).is_done


def test_a_bulk_action_is_about_the_operations_that_were_shown() -> None:
    """As many others, or another attempt of the same, are not what a person has agreed to."""
    shown = [record(), record(pk="v1#other")]
    found = census(shown)

    assert found.startswith("2-")
    check_census(found, census(reversed(shown)))
    for others in ([shown[0], record(pk="v1#third")], [shown[0], record(pk="v1#other", attempt=4)]):
        with pytest.raises(CommandError, match="not the operations of the dry run"):
            check_census(found, census(others))


class Unreadable(MemoryStore):
    """A store that answers no read after it was written to."""

    was_written = False

    def write(self, transition: Any) -> Any:
        """As the memory store's."""
        self.was_written = True
        return super().write(transition)

    def read(self, pk: str) -> Record | None:
        """As the memory store's, or no answer."""
        if self.was_written:
            raise StoreError("no answer", transient=True)
        return super().read(pk)


def test_a_store_that_stops_to_answer_leaves_no_action_without_its_end() -> None:
    """The operation is settled, and the second line says so, if the state cannot be read again."""
    service, noted = in_doubt(store=Unreadable()), Noted()
    service.store.was_written = False

    settled = settle(operator(service.store, service.clock, noted), the(service), Completed(ANSWER))

    assert settled.is_done
    assert [(line.outcome, line.after) for line in noted.lines][1:] == [("settled", "not read")]


def test_what_was_settled_of_many_is_told_before_one_cannot_be(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The second of two needs the name of a step. The first is settled, and the command says so."""
    with operating(capsys) as service:
        states = {"status": Status.UNKNOWN, "escalated_at_ms": None}
        first = record(**states, due=Due(shard="0", at_ms=1))
        second = record(**states, due=Due(shard="0", at_ms=2), pk="v1#other")
        second = replace(second, effects=Effects.RECORDED, steps=STEPS["started"])
        for each in (first, second):
            service.client.put_item(TableName=TABLE, Item=attribute_values(each))

        many = ("--all-listed", "--unknown", "--not-executed", "--reason", WHY, "--yes")
        status = service.run("resolve", *many, "--expect", census([first, second]))

    assert (status, service.out) == (2, f"{first.operation_id}: settled\n")
    assert "1 of 2 settled" in service.err


def test_an_action_without_an_audit_line_is_not_done() -> None:
    """If the first line cannot be written, the record stays as it was."""
    service = in_doubt()
    before = the(service)

    with pytest.raises(CommandError, match="nothing was changed"):
        settle(operator(service.store, service.clock, Noted(fails=True)), before, Completed(ANSWER))

    assert the(service) == before


def test_an_answer_that_cannot_be_stored_has_no_audit_line() -> None:
    """A mistake in the file is found before anything is written."""
    service, noted = in_doubt(), Noted()

    with pytest.raises(TypeError, match="statusCode"):
        settle(operator(service.store, service.clock, noted), the(service), Completed({"id": 1}))

    assert noted.lines == []


def test_each_unknown_record_has_a_command_that_settles_it() -> None:
    """Every record has an outlook, and no unknown one leaves a person without a next step."""
    for each in every_record():
        found = outlook(each, NOW_MS)
        assert found.client
        if each.status is Status.UNKNOWN:
            assert found.command.startswith(f"oncekey resolve {each.pk}."), each
