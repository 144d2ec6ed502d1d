"""Operations carried out by processes that are killed, one after the other, and what they leave."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.killed_functions import BUSINESS_TABLE
from tests.support.killed_process import OUTBOX_TABLE
from tests.support.tripwire import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.support.forked_processes import Run
    from tests.support.killed_process import World

KEY = "5d2c7d0e-8f5b-4a3e-9f38-2b8a7d1f6c11"
# A retry that finds the outcome unknown, the settlement, and the retry that resumes.
MOST_RUNS_AFTER_A_KILL = 3
# The moments at which a process is killed, by the place of the process in the story.
Stops = dict[int, Stop]


def moments(calls: Sequence[str], number_of_signal: int = signal.SIGKILL) -> list[Stop]:
    """Before and after each of these calls."""
    numbers = range(1, len(calls) + 1)
    return [
        Stop(when, number, number_of_signal) for number in numbers for when in ("before", "after")
    ]


def places(way: Sequence[Run]) -> list[tuple[int, int]]:
    """Every call of a way: the number of its process, from 0, and its own, from 1."""
    return [
        (number, call_number)
        for number, run in enumerate(way)
        for call_number in range(1, len(run.calls) + 1)
    ]


def rests(way: Sequence[Run]) -> list[tuple[object, ...]]:
    """For every call of a way, what is left of the way from there: what tells two calls apart."""
    calls = [
        (len(way) - number, run.what, call) for number, run in enumerate(way) for call in run.calls
    ]
    return [tuple(calls[index:]) for index in range(len(calls))]


@dataclass(frozen=True)
class Story:
    """An operation: the processes that it took, and what it has come to.

    `charge_calls` is how many charges the provider was sent.
    """

    runs: list[Run]
    came_to: dict[str, Any]
    operation_id: str
    charge_calls: int

    @property
    def asked(self) -> int:
        """How many processes had to ask a resolver."""
        return sum(run.what == "settle" for run in self.runs)

    @property
    def keys(self) -> set[str]:
        """Every idempotency key that the provider was shown."""
        return set(itertools.chain.from_iterable(run.keys for run in self.runs))

    def keys_of(self, *steps: str) -> set[str]:
        """The one key that it should be shown for each of these steps, as it is defined."""
        return {str(uuid.uuid5(uuid.UUID(self.operation_id), step)) for step in steps}


def carried_out(world: World, handler: str, stops: Mapping[int, Stop]) -> Story:
    """One operation in an empty world, from the first request until it is answered for good."""
    world.forget()
    with told(stops):
        runs = answered(world, handler, stops)
        return Story(
            runs=runs,
            came_to=left(world, runs[-1].answer),
            operation_id=world.record()["operation_id"],
            charge_calls=world.provider.counts()["calls"],
        )


def answered(world: World, handler: str, stops: Mapping[int, Stop]) -> list[Run]:
    """Processes, one after the other, until the request is answered for good.

    Each process comes later than the one before by more than any lease. Where a request is told
    that the outcome is unknown, the record is settled next, as the reconciler would do.
    """
    runs: list[Run] = []
    last = max(stops, default=0)
    while not runs or not is_answered(runs[-1]):
        assert len(runs) <= last + MOST_RUNS_AFTER_A_KILL, [run.calls for run in runs]
        stop = stops.get(len(runs))
        is_unknown = bool(runs) and runs[-1].code == "outcome-unknown"
        run = world.settle(stop) if is_unknown else world.invoke(handler, KEY, stop)
        world.later()
        runs.append(run)
        if stop is None:
            assert run.ended == "exit 0"
            assert run.code in {None, "outcome-unknown"}
            assert run.what == "invoke" or run.answer == "settled"
        else:
            assert (run.ended, *run.last_moment[:2]) == ("SIGKILL", stop.when, stop.number)
            check_all_or_nothing(world)
    return runs


def is_answered(run: Run) -> bool:
    """Whether the process has answered the request for good."""
    return run.what == "invoke" and run.ended == "exit 0" and run.code is None


def check_all_or_nothing(world: World) -> None:
    """Whatever has died: with the completion there is all of it, without it nothing of it."""
    records = world.records()
    is_completed = [record["status"] for record in records] == ["COMPLETED"]
    assert len(world.items(OUTBOX_TABLE)) == is_completed
    points = {name for record in records for name in record["steps"]["finished"]}
    items = world.items(BUSINESS_TABLE)
    assert len(items) == (is_completed or "created" in points)
    assert all((item.get("status", "paid") == "paid") == is_completed for item in items)


def left(world: World, answer: Any) -> dict[str, Any]:
    """What an operation has come to, whole, with names in place of the ids that chance has given.

    Of the record it is what does not tell how often it was attempted.
    """
    record = world.record()
    message, payload = world.message()
    intents = world.provider.payment_intents()
    facts = {
        "record": [record["status"], sorted(record["steps"]["finished"])],
        "answer": [answer["statusCode"], json.loads(answer["body"])],
        "business": world.items(BUSINESS_TABLE),
        "message": [message["topic"], message["operation_id"], payload],
        "charges": sorted(
            [intent["metadata"]["step"], intent["status"], intent["id"]] for intent in intents
        ),
    }
    text = json.dumps(facts, default=int)
    for intent in intents:
        text = text.replace(intent["id"], f"id of {intent['metadata']['step']}")
    named: dict[str, Any] = json.loads(text.replace(record["operation_id"], "id of operation"))
    return named


@contextlib.contextmanager
def told(stops: Mapping[Any, Stop]) -> Iterator[None]:
    """What fails in the block says where processes were killed."""
    try:
        yield
    except AssertionError as error:
        where = [f"process {place} {stop}" for place, stop in stops.items()]
        error.add_note(f"stopped: {', '.join(where) or 'none'}")
        raise
