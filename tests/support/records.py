"""Records in every state, for tests of the pure decisions."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from oncekey.record.policy import Encoding, Policy
from oncekey.record.record import Due, Effects, Record, Status
from oncekey.record.steps import NO_STEPS, FinishedStep, StartedStep, Steps
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000

# A record's lease and expiry, as they stand to NOW_MS.
LEASES: dict[str, int | None] = {
    "absent": None,
    "open": NOW_MS + 1,
    "exactly at its end": NOW_MS,
    "over": NOW_MS - 1,
}
EXPIRIES: dict[str, int | None] = {
    "none": None,
    "future": NOW_S + 1,
    "exactly now": NOW_S,
    "past": NOW_S - 1,
}


FINISHED = FinishedStep(
    name="create order.1 ✓", position=0, at_ms=NOW_MS - 3_000, result='{"id":1}'
)
REACHED = FinishedStep(name="committed", position=1, at_ms=NOW_MS - 2_000)
STARTED = StartedStep(name="charge", position=2, mark=3, at_ms=NOW_MS - 1_000)
# What a record can say of its steps.
STEPS: dict[str, Steps] = {
    "none": NO_STEPS,
    "finished": Steps(finished=(FINISHED, REACHED)),
    "started": Steps(started=STARTED),
    "finished and started": Steps(started=STARTED, finished=(FINISHED, REACHED)),
}


def record(**changes: Any) -> Record:
    """A record in progress, of unrecorded effects, with every field that it can have; changed."""
    return replace(_IN_PROGRESS, **changes)


_IN_PROGRESS = Record(
    pk="v1#record",
    status=Status.IN_PROGRESS,
    rev=7,
    tenant="tenant-1",
    principal="user-1",
    operation="POST /payments",
    key="secret-key-0123456789",
    operation_id="0f8fad5b-d9cb-469f-a165-70867728950e",
    fingerprint="f1:asked",
    owner="owner-1",
    attempt=3,
    effects=Effects.UNRECORDED,
    created_at_ms=NOW_MS - 90_000,
    lease_until_ms=NOW_MS + 1,
    due=Due(shard="5", at_ms=NOW_MS + 60_001),
    reconcile_attempts=2,
    last_error="TimeoutError",
    escalated_at_ms=NOW_MS - 10_000,
    request='{"body":"{}"}',
    policy=Policy(encoding=Encoding.HTTP, retention_s=86_400),
)


def every_record() -> Iterator[Record]:
    """Every status with every lease, expiry and kind of effects, also those that cannot arise.

    Recorded effects with every kind of steps, too, and a few records of other effects with them, or
    that nobody is to look at.
    """
    for status in Status:
        yield record(status=status, due=None)
    for status, lease, expiry, effects in itertools.product(
        Status, LEASES.values(), EXPIRIES.values(), Effects
    ):
        yield record(status=status, lease_until_ms=lease, expires_at_s=expiry, effects=effects)
    stepped = ("finished", "started", "finished and started")
    for status, lease_name, expiry_name, steps in itertools.product(
        Status, ("open", "over"), ("none", "past"), stepped
    ):
        yield record(
            status=status,
            lease_until_ms=LEASES[lease_name],
            expires_at_s=EXPIRIES[expiry_name],
            effects=Effects.RECORDED,
            steps=STEPS[steps],
        )
    for status, effects in itertools.product(Status, (Effects.UNRECORDED, Effects.REPEATABLE)):
        yield record(
            status=status,
            lease_until_ms=LEASES["over"],
            effects=effects,
            steps=STEPS["finished and started"],
        )
    for status, of_first_attempt in itertools.product(Status, STEPS.values()):
        yield record(
            status=status,
            lease_until_ms=None if status is Status.PENDING else LEASES["over"],
            attempt=1,
            effects=Effects.RECORDED,
            steps=of_first_attempt,
        )
