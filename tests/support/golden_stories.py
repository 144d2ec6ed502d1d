"""Payments on their way through API, relay and worker, whose processes are killed on it."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.golden_world import API, KEY, RELAY, WORKER
from tests.support.kill_stories import told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.support.forked_processes import Run
    from tests.support.golden_world import GoldenWorld
    from tests.support.tripwire import Stop

# A function and the number of its process, from 0.
Place = tuple[str, int]
# Where processes are killed, and at which of their moments.
Stops = dict[Place, "Stop"]
# An undisturbed round and one for each kill that a test makes, with some to spare.
_MOST_ROUNDS = 8


@dataclass(frozen=True)
class GoldenStory:
    """Payments from the first request until nothing is left to do."""

    runs: dict[str, list[Run]]
    came_to: dict[str, Any]
    # What the provider should be shown, one key for each payment.
    downstream_keys: set[str]
    charge_calls: int

    @property
    def keys(self) -> set[str]:
        """Every idempotency key that the provider was shown."""
        return {key for runs in self.runs.values() for run in runs for key in run.keys}


@dataclass
class _Journey:
    world: GoldenWorld
    stops: Stops
    clients: Sequence[str]
    runs: dict[str, list[Run]] = field(default_factory=lambda: {API: [], RELAY: [], WORKER: []})
    # By the client's key, in order.
    answers: dict[str, list[Any]] = field(default_factory=dict)

    def go(self) -> None:
        """Rounds, each later than the one before, until nothing is left to do.

        In each, every client without an answer sends its request, the relay gets what is new, and
        the worker what is in the queue: so where the request was killed after its commit, the
        payment is charged before its client comes back.
        """
        rounds = 0
        while self._round():
            self.world.later()
            rounds += 1
            assert rounds <= _MOST_ROUNDS, {name: len(runs) for name, runs in self.runs.items()}
        for client in self.clients:
            # And again, although it is all done.
            while not self._request(client):
                self.world.later()
        for name, number in self.stops:
            assert len(self.runs[name]) > number, f"there was no process {number} of {name}"

    def _round(self) -> bool:
        waiting = [client for client in self.clients if client not in self.answers]
        for client in waiting:
            self._request(client)
        changes = self.world.changes()
        if changes:
            run = self._started(RELAY, lambda stop: self.world.relay(changes, stop))
            assert self.world.acknowledge(run, changes) == (run.ended == "exit 0")
        messages = self.world.receive()
        if messages:
            run = self._started(WORKER, lambda stop: self.world.work(messages, stop))
            if run.ended == "exit 0":
                check_is_recorded(self.world)
            assert self.world.settle(run, messages) == (run.ended == "exit 0")
        return bool(waiting or changes or messages)

    def _request(self, client: str) -> bool:
        run = self._started(API, lambda stop: self.world.request(stop, key=client))
        if run.ended != "exit 0":
            return False
        told_so_far = self.answers.setdefault(client, [])
        told_so_far.append([run.answer["statusCode"], json.loads(run.answer["body"])])
        return True

    def _started(self, name: str, start: Callable[[Stop | None], Run]) -> Run:
        stop = self.stops.get((name, len(self.runs[name])))
        run = start(stop)
        self.runs[name].append(run)
        if stop is None:
            assert run.ended == "exit 0"
        else:
            assert (run.ended, *run.last_moment[:2]) == ("SIGKILL", stop.when, stop.number)
            check_nothing_is_lost(self.world)
        return run


def carried_out(
    world: GoldenWorld, stops: Stops, *, payments: int = 1, declined: bool = False
) -> GoldenStory:
    """So many payments in an empty world, from the first request until all is settled."""
    world.forget()
    if declined:
        world.provider.arm(decline=payments)
    clients = [KEY, *(str(uuid.UUID(int=number)) for number in range(1, payments))]
    journey = _Journey(world, stops, clients)
    with told(stops):
        journey.go()
        return GoldenStory(
            runs=journey.runs,
            came_to={**left(world), "answers": _answers(world, journey.answers)},
            downstream_keys=downstream_keys(world),
            charge_calls=world.provider.counts()["calls"],
        )


def records_of(world: GoldenWorld, operation: str) -> list[dict[str, Any]]:
    """The idempotency records of one kind of operation."""
    records = world.store.items("idempotency")
    return [record for record in records if record.get("operation") == operation]


def accepted(world: GoldenWorld) -> list[dict[str, Any]]:
    """The completed records of `POST /payments`."""
    records = records_of(world, "POST /payments")
    return [record for record in records if record["status"] == "COMPLETED"]


def downstream_keys(world: GoldenWorld) -> set[str]:
    """The key that the provider should be shown for each payment, as it is defined."""
    ids = [record["operation_id"] for record in accepted(world)]
    return {str(uuid.uuid5(uuid.UUID(each), "charge")) for each in ids}


def check_nothing_is_lost(world: GoldenWorld) -> None:
    """Whatever has died: payment, message and completion are there together or not at all.

    Until the message is handled it is in the outbox or in the queue; the payment is settled when
    the message is, and nothing was charged before it was committed.
    """
    commits = len(accepted(world))
    rows = world.store.items("payments")
    assert len(rows) == commits
    handled = [each["status"] for each in records_of(world, "payment.requested")]
    settled = [row for row in rows if row["status"] != "pending"]
    assert len(settled) == handled.count("COMPLETED")
    waiting = len(world.store.items("outbox")) + sum(world.store.queued().values())
    assert len(settled) + waiting >= commits
    assert world.provider.counts()["charges"] <= commits


def check_is_recorded(world: GoldenWorld) -> None:
    """What the provider calls each payment is on record; the messages are not acknowledged yet."""
    known = {intent["id"] for intent in world.provider.payment_intents()}
    rows = world.store.items("payments")
    assert {row.get("provider_id") for row in rows if row["status"] != "pending"} == known


def left(world: GoldenWorld) -> dict[str, Any]:
    """What payments have come to, with names in place of the ids that chance has given.

    Of the records it is what does not tell how often they were attempted.
    """
    rows = {row["payment_id"]: row for row in world.store.items("payments")}
    made = world.provider.payment_intents()
    intents = {intent["metadata"]["payment_id"]: intent for intent in made}
    assert (len(made), intents.keys()) == (len(rows), rows.keys())
    records = [*accepted(world), *records_of(world, "payment.requested")]
    return {
        "records": sorted([each["operation"], each["status"]] for each in records),
        "all records": len(world.store.items("idempotency")),
        "payments": [_ending(rows[each], intents[each]) for each in rows],
        "outbox": world.store.items("outbox"),
        "queues": world.store.queued(),
        "stream": world.changes(),
        "charges": world.provider.counts()["charges"],
    }


def _ending(row: dict[str, Any], intent: dict[str, Any]) -> dict[str, Any]:
    """How a payment ended by its row, beside how it ended by the provider."""
    return {
        "status": row["status"],
        "reason": row.get("reason"),
        "is of the provider": row["provider_id"] == intent["id"],
        "was charged then": row["charged_at"] == intent["created"],
        "provider": intent["status"],
        "amounts": [int(row["amount"]), intent["amount"]],
        "requested by": row["operation_id"] == intent["metadata"]["operation_id"],
    }


def _answers(world: GoldenWorld, answers: Mapping[str, list[Any]]) -> list[list[Any]]:
    """What each client was told, its payment's id named by whether it is the one on record."""
    ids = {record["key"]: record["operation_id"] for record in accepted(world)}
    payments = {client: operation_id.replace("-", "") for client, operation_id in ids.items()}
    text = {client: json.dumps(told_it) for client, told_it in answers.items()}
    return [
        json.loads(text[client].replace(f"pay_{payments[client]}", "id of payment"))
        for client in answers
    ]
