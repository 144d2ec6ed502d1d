"""Payments up to the stream or the queue, and what is left of the way from there."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from oncekey.outbox.inbox import delivered
from tests.support.golden_stories import carried_out, left
from tests.support.golden_world import WORKER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.forked_processes import Run
    from tests.support.golden_store import Record
    from tests.support.golden_world import GoldenWorld

_MOST_ROUNDS = 8


def requested(world: GoldenWorld, payments: int = 1) -> list[Record]:
    """So many payments in an empty world, accepted; what the relay is to get."""
    world.forget()
    for number in range(payments):
        assert world.request(key=str(uuid.UUID(int=number))).answer["statusCode"] == 202
    return world.changes()


def relayed(world: GoldenWorld, payments: int = 1) -> list[Record]:
    """The same, and relayed; what the worker is to get, in the order of the requests."""
    changes = requested(world, payments)
    assert world.acknowledge(world.relay(changes), changes)
    return world.receive()


def duplicated(world: GoldenWorld, message: Record) -> Record:
    """The same message once more, received as well."""
    world.store.send(message["body"])
    (copy,) = world.receive()
    return copy


def message_ids(messages: Sequence[Record]) -> list[str]:
    """The ids under which messages were published, whatever the queue calls them."""
    return [delivered(message["body"]).id for message in messages]


def drained(world: GoldenWorld) -> list[Run]:
    """The worker's processes, each later than the one before, until there are no messages."""
    runs: list[Run] = []
    world.later()
    while messages := world.receive():
        run = world.work(messages)
        assert world.settle(run, messages), run
        runs.append(run)
        assert len(runs) <= _MOST_ROUNDS
        world.later()
    return runs


def truth(world: GoldenWorld, payments: int = 1) -> dict[str, Any]:
    """What so many payments come to if nothing disturbs them, and the worker's calls."""
    story = carried_out(world, {}, payments=payments)
    (run,) = story.runs[WORKER]
    assert run.calls
    return left(world)


def everything(world: GoldenWorld) -> dict[str, Any]:
    """What store, queues and provider hold, to compare with later."""
    tables = {name: world.store.items(name) for name in ("idempotency", "payments", "outbox")}
    return {**tables, "queues": world.store.queued(), "provider": world.provider.payment_intents()}
