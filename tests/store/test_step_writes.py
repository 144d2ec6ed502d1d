"""What both stores do with writes of steps: late ones, and those of steps with odd names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey.effects.run_order import LONGEST_NAME
from oncekey.record.record import Effects, Status
from oncekey.record.steps import NO_STEPS, FinishedStep, StartedStep, Steps
from oncekey.record.stored_answer import NotKept, Place, StoredRef
from oncekey.record.transitions import (
    ClearStep,
    FinishStep,
    Reserve,
    Resume,
    SettleStep,
    StartStep,
    Transition,
    seen,
)
from oncekey.store.store import Refused, Written
from tests.support.records import NOW_MS, record
from tests.support.replacing import replace
from tests.support.transition_rows import HALF_DONE, PK, RECORDED_LEASE

if TYPE_CHECKING:
    from oncekey.record.record import Record
    from oncekey.store.store import Store

OWNER = record().owner
RUNNING = record(effects=Effects.RECORDED)
# A store's own language must not read anything into the name of a step, which is its author's.
ODD_NAMES = [
    *("finished", "started", "steps", "step", "name", "size", "0", "#step", ":mark", " ", "\n"),
    *("create order.1", "a.b.c", "a[0]", "charge ✓ Größe 価格 😀", "e\u0301", 'it\'s "so"', "\\"),
    "n" * LONGEST_NAME,
]


def start(name: str = "charge", mark: int = 1, position: int = 0) -> StartStep:
    """Our run marks a step as started."""
    step = StartedStep(name=name, position=position, mark=mark, at_ms=NOW_MS)
    return StartStep(pk=PK, owner=OWNER, step=step)


def finish(name: str = "charge", mark: int | None = 1, **fields: Any) -> FinishStep:
    """Our run puts the end of a step on record."""
    step = FinishedStep(**{"name": name, "position": 0, "at_ms": NOW_MS, "result": "1", **fields})
    return FinishStep(pk=PK, owner=OWNER, step=step, mark=mark)


def clear(mark: int = 1, name: str = "charge", position: int = 0) -> ClearStep:
    """Our run takes back the mark of a step that was not executed."""
    step = StartedStep(name=name, position=position, mark=mark, at_ms=NOW_MS)
    return ClearStep(pk=PK, owner=OWNER, step=step)


def settle(name: str | None = "charge", *, finished: bool = False) -> SettleStep:
    """A resolver settles the step in doubt."""
    end = FinishedStep(name=name or "", position=0, at_ms=NOW_MS, result="2")
    return SettleStep(
        pk=PK,
        seen_owner=OWNER,
        new_owner="owner-9",
        retry=HALF_DONE,
        finished=end if finished else None,
        cleared=None if finished else name,
    )


def run(store: Store, *transitions: Transition, begins: Record = RUNNING) -> Record:
    """Apply these in turn to a record that begins so; what is stored then."""
    for transition in (Reserve(record=begins, now_ms=NOW_MS), *transitions):
        assert store.write(transition) == Written()
    return stored(store)


def stored(store: Store) -> Record:
    """What the store holds."""
    found = store.read(PK)
    assert found is not None
    return found


LATE: dict[str, tuple[list[Transition], Transition]] = {
    "start twice": ([start()], start()),
    "start after the end": ([start(), finish()], start()),
    "start after the end of an unmarked one": ([finish(mark=None)], start()),
    "start while another is under way": ([start("another", mark=2)], start()),
    "finish twice": ([start(), finish()], finish()),
    "finish twice, unmarked": ([finish(mark=None)], finish(mark=None)),
    "finish unmarked after the end": ([start(), finish()], finish(mark=None)),
    "finish unmarked while it is marked": ([start()], finish(mark=None)),
    "finish unmarked while another is under way": (
        [start("another", mark=2)],
        finish(mark=None),
    ),
    "finish after it was cleared": ([start(), clear()], finish()),
    "finish of an old call, while a new one runs": (
        [start(), clear(), start(mark=2)],
        finish(mark=1),
    ),
    "commit twice": ([finish(mark=None, result=None)], finish(mark=None, result=None)),
    "clear twice": ([start(), clear()], clear()),
    "clear after the end": ([start(), finish()], clear()),
    "clear of an old call, while a new one runs": ([start(), clear(), start(mark=2)], clear(1)),
    "clear of an old call, while the next step runs": (
        [start(), finish(), start("next", mark=2)],
        clear(1),
    ),
}


@pytest.mark.requirement("E6")
@pytest.mark.parametrize(("before", "late"), LATE.values(), ids=LATE)
def test_a_late_duplicate_of_a_steps_write_is_refused(
    store: Store, before: list[Transition], late: Transition
) -> None:
    """A write of a step that arrives when its time is past changes nothing.

    Red when a condition leaves out the mark, that there is none, or that the step has no end.
    """
    met = run(store, *before)

    assert store.write(late) == Refused(met)
    assert stored(store) == met


OF_ANOTHER: dict[str, tuple[list[Transition], Transition]] = {
    "a commit, while a step is in doubt": ([start()], finish("failed", result=None)),
    "an unmarked commit, while a step is in doubt": (
        [start()],
        finish("failed", mark=None, result=None),
    ),
    "the end of another step with its number": ([start()], finish("another", position=1)),
    "the end of another step at its place": ([start()], finish("another")),
    "its end at another place": ([start()], finish(position=1)),
    "its end under another number": ([start()], finish(mark=2)),
    "the clearing of another step with its number": ([start()], clear(name="another")),
    "its clearing at another place": ([start()], clear(position=1)),
}


@pytest.mark.fault("K2.1")
@pytest.mark.parametrize(("before", "other"), OF_ANOTHER.values(), ids=OF_ANOTHER)
def test_a_mark_is_cleared_by_its_own_step_alone(
    store: Store, before: list[Transition], other: Transition
) -> None:
    """What ends or clears another step than the marked one, by name, place or number, is refused,
    and the mark of doubt stays.

    Red when a condition goes by the number of the mark alone.
    """
    met = run(store, *before)

    assert store.write(other) == Refused(met)
    assert stored(store) == met


LATE_TO_SETTLED: dict[str, Transition] = {
    "start": start("next", mark=2),
    "finish": finish(),
    "finish unmarked": finish(mark=None),
    "clear": clear(),
    "settle as cleared": settle(),
    "settle as finished": settle(finished=True),
}


@pytest.mark.requirement("E6")
@pytest.mark.parametrize("finished", [True, False], ids=["it happened", "it did not"])
@pytest.mark.parametrize("late", LATE_TO_SETTLED.values(), ids=LATE_TO_SETTLED)
def test_a_settled_step_hears_no_more_of_its_old_run(
    store: Store, finished: bool, late: Transition
) -> None:
    """Neither the run that left the doubt nor another resolver writes to the step any more.

    That holds also once the record runs again, with its marks counted from 1 again. Red when a
    settlement leaves the owner, or a step's write is permitted by its mark alone.
    """
    unknown = replace(
        RUNNING, status=Status.UNKNOWN, steps=NO_STEPS.starting(start().step), lease_until_ms=None
    )
    settled = run(store, settle(finished=finished), begins=unknown)

    assert settled.owner == "owner-9"
    assert store.write(late) == Refused(settled)

    resume = Resume(pk=PK, seen=seen(settled), lease=RECORDED_LEASE)
    assert store.write(resume) == Written()
    again = replace(start("later"), owner=RECORDED_LEASE.owner)
    assert store.write(again) == Written()
    assert store.write(late) == Refused(stored(store))


@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
def test_a_step_may_have_any_name(store: Store, name: str) -> None:
    """Whatever a step is called, every write of it finds that step, and no other.

    Red when a name becomes a part of an expression.
    """
    beside = finish("beside it", mark=None, position=1)

    started = run(store, beside, start(name))
    assert started.steps == Steps(started=start(name).step, finished=(beside.step,))

    assert store.write(clear(name=name)) == Written()
    assert stored(store).steps == Steps(finished=(beside.step,))

    assert store.write(start(name, mark=2)) == Written()
    assert store.write(finish(name, mark=2)) == Written()
    assert stored(store).steps == Steps(finished=(finish(name).step, beside.step))
    assert isinstance(store.write(start(name)), Refused)


@pytest.mark.parametrize("finished", [True, False], ids=["it happened", "it did not"])
@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
def test_a_step_with_any_name_can_be_settled(store: Store, name: str, finished: bool) -> None:
    """A settlement finds the step in doubt by its name, whatever that is, and no other."""
    unknown = replace(
        RUNNING, status=Status.UNKNOWN, steps=NO_STEPS.starting(start(name).step), due=None
    )
    other = settle(f"{name}!", finished=finished)

    assert store.write(Reserve(record=unknown, now_ms=NOW_MS)) == Written()
    assert store.write(other) == Refused(unknown)
    assert store.write(settle(name, finished=finished)) == Written()

    end = settle(name, finished=True).finished
    assert end is not None
    assert stored(store).steps == (Steps(finished=(end,)) if finished else NO_STEPS)


@pytest.mark.parametrize(
    "result",
    [
        None,
        "",
        '{"id":"ch_1 ✓"}',
        b"\x00\xff",
        StoredRef(place=Place.ITEM, name=f"{PK}#owner", digest="d1"),
        StoredRef(place=Place.OBJECT, name="key", digest="d2"),
        NotKept("too-large"),
    ],
    ids=ascii,
)
@pytest.mark.parametrize("is_final", [False, True])
def test_a_result_is_read_as_it_was_written(store: Store, result: Any, is_final: bool) -> None:
    """A step's result comes back the same, wherever it is kept, and so does that it was final."""
    end = finish(mark=None, result=result, is_final=is_final)

    assert run(store, end).steps == Steps(finished=(end.step,))


def test_steps_come_back_in_the_order_of_the_run(store: Store) -> None:
    """A table keeps them under their names; what is read is in their order all the same."""
    names = ["z", "10", "9", "a"]

    read = run(
        store,
        *(finish(name, mark=None, position=position) for position, name in enumerate(names)),
    )

    assert [step.name for step in read.steps.finished] == names


def test_a_marked_step_that_is_on_record_is_not_put_there_again(store: Store) -> None:
    """A step's end stays what it was, even in a record that says it is both in doubt and done.

    Red when the end of a marked step may replace the one that is on record.
    """
    done = FinishedStep(name="charge", position=0, at_ms=NOW_MS - 1, result="first")
    mark = StartedStep(name="charge", position=0, mark=1, at_ms=NOW_MS)
    both = replace(RUNNING, steps=Steps(started=mark, finished=(done,)))
    store.write(Reserve(record=both, now_ms=NOW_MS))

    assert store.write(finish(mark=1)) == Refused(both)
    assert stored(store).steps.finished == (done,)
