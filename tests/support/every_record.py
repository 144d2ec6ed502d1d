"""Records in every combination of what the stores look at, and every transition of them."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from oncekey.record import SETTLED, Due, Effects, Record, Status
from oncekey.transitions import (
    Complete,
    Doubt,
    Ending,
    ExpireLease,
    LateEffect,
    Lease,
    MarkUnknown,
    Release,
    Reserve,
    Resume,
    Retry,
    Seen,
    Settle,
    TakeOver,
    Transition,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

PK = "v1#record-under-test"
NOW_MS = 1_700_000_000_500
NOW_S = NOW_MS // 1000
OWNER = "owner-of-the-record"
OTHER_OWNER = "another-owner"
REV = 5

LEASES_MS: dict[str, int | None] = {
    "no lease": None,
    "lease open": NOW_MS + 1,
    "lease ends now": NOW_MS,
    "lease over": NOW_MS - 1,
}
EXPIRIES_S: dict[str, int | None] = {
    "no expiry": None,
    "expires later": NOW_S + 1,
    "expires now": NOW_S,
    "expired": NOW_S - 1,
}
DUE = Due(shard="7", at_ms=NOW_MS + 60_000)


def record(
    status: Status = Status.IN_PROGRESS,
    *,
    lease_until_ms: int | None = None,
    expires_at_s: int | None = None,
    effects: Effects = Effects.UNRECORDED,
    owner: str = OWNER,
    rev: int = REV,
) -> Record:
    """A record with every attribute that its status allows."""
    return Record(
        pk=PK,
        status=status,
        rev=rev,
        tenant="acme",
        principal="user-1",
        operation="POST /payments",
        key="a-key-of-a-client",
        operation_id="6f9619ff-8b86-4011-b42d-00c04fc964ff",
        fingerprint="f1:what-was-asked",
        owner=owner,
        attempt=2,
        effects=effects,
        created_at_ms=NOW_MS - 10_000,
        lease_until_ms=lease_until_ms,
        completed_at_ms=NOW_MS - 1_000 if status is Status.COMPLETED else None,
        expires_at_s=expires_at_s,
        due=None if status in SETTLED else DUE,
        response='{"statusCode":201}' if status is Status.COMPLETED else None,
        response_version=1 if status is Status.COMPLETED else None,
        last_error=None if status in {Status.IN_PROGRESS, Status.COMPLETED} else "why",
    )


def all_records() -> Iterator[tuple[str, Record]]:
    """Every combination of status, lease, expiry and effects, with its name."""
    for status, lease, expiry, effects in product(Status, LEASES_MS, EXPIRIES_S, Effects):
        yield (
            f"{status}, {lease}, {expiry}, {effects}",
            record(
                status,
                lease_until_ms=LEASES_MS[lease],
                expires_at_s=EXPIRIES_S[expiry],
                effects=effects,
            ),
        )


def all_transitions() -> Iterator[tuple[str, Transition]]:
    """Every transition, by the owner of `record()` and another, at its version and another."""
    fresh = record(lease_until_ms=NOW_MS + 30_000, owner="new-owner", rev=1)
    yield "reserve", Reserve(record=fresh, now_ms=NOW_MS)
    for who, owner in (("own", OWNER), ("other", OTHER_OWNER)):
        yield f"complete, {who}", Complete(pk=PK, owner=owner, ending=_ENDING)
        yield f"release, {who}", Release(pk=PK, owner=owner, retry=_RETRY)
        yield f"mark unknown, {who}", MarkUnknown(pk=PK, owner=owner, doubt=_DOUBT)
        for to in (_ENDING, _RETRY):
            name = f"settle to {type(to).__name__.lower()}, {who}"
            yield name, Settle(pk=PK, seen_owner=owner, new_owner="settler", to=to)
        for which, rev in (("seen", REV), ("older", REV - 1)):
            yield from _of_version(f"{who} owner, {which} rev", Seen(owner=owner, rev=rev))


_ENDING = Ending(response='{"statusCode":402}', completed_at_ms=NOW_MS, expires_at_s=NOW_S + 86_400)
_RETRY = Retry(reason="not-executed", expires_at_s=NOW_S + 86_400)
_DOUBT = Doubt(reason="lease-expired", due=Due(shard="7", at_ms=NOW_MS + 1))


def _of_version(at: str, seen: Seen) -> Iterator[tuple[str, Transition]]:
    lease = Lease(owner="new-owner", until_ms=NOW_MS + 30_000, due=DUE, effects=Effects.REPEATABLE)
    yield f"resume, {at}", Resume(pk=PK, seen=seen, lease=lease)
    yield f"take over, {at}", TakeOver(pk=PK, seen=seen, lease=lease, now_ms=NOW_MS)
    for to in (_DOUBT, _RETRY):
        name = f"expire lease to {type(to).__name__.lower()}, {at}"
        yield name, ExpireLease(pk=PK, seen=seen, now_ms=NOW_MS, to=to)
    yield f"late effect, {at}", LateEffect(pk=PK, seen=seen, new_owner="settler", ending=_ENDING)
