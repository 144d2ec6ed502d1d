"""A plan: what a workload costs in a month, and how near each limit of DynamoDB it comes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import TYPE_CHECKING

from oncekey.settings import DUE_SHARDS
from oncekey_operator.planning.limits import MOST_DUE_SHARDS, MOST_QUOTA_SHARDS
from oncekey_operator.planning.workload import Items, Units, write_units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey_operator.planning.prices import Prices
    from oncekey_operator.planning.workload import Workload

# AWS's month of 730 hours.
MONTH_S = 730 * 3600
GB = 10**9
# A partition takes this many write units a second, and so does a key of an index.
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html
PARTITION_WRITES = 1_000
# The default quota of a table, and of its index.
TABLE_WRITES = 40_000
# What a new table on demand takes at once.
NEW_TABLE_WRITES = 4_000
# The counter of a quota, per shard; see the guide on quotas.
COUNTER_KEYS = 30
# TTL deletes an item within a few days after it has expired.
TTL_LATE_S = 2 * 86_400
# Each shard is then half full at the peak.
_FIRST_REQUESTS_A_SHARD = 250
_MINUTES = MONTH_S // 60
_WARM, _HOT = 0.5, 1.0


@dataclass(frozen=True, kw_only=True)
class Pressure:
    """How near a limit the peak comes. `share` of the limit is used."""

    what: str
    per_second: float
    limit: float
    advice: str

    @property
    def share(self) -> float:
        """Above 1 requests are throttled."""
        return self.per_second / self.limit

    @property
    def verdict(self) -> str:
        """`ok`, `warm` above half of the limit, `hot` above it."""
        return "hot" if self.share > _HOT else "warm" if self.share > _WARM else "ok"


@dataclass(frozen=True, kw_only=True)
class Bill:
    """The US dollars of a month."""

    table_writes: float
    index_writes: float
    reads: float
    storage: float
    backup: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.table_writes + self.index_writes + self.reads + self.storage + self.backup


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a workload needs.

    Attributes:
        first: the units of a first request.
        duplicate: the units of a repeat.
        month: the units of a month.
        stored_gb: the table's size, once the first records have been deleted.
        bill: the money of a month.
        without_index: the same with ONCEKEY_DUE_SHARDS=0; None if the workload needs the index.
        shards: the number of shards that the peak needs.
        pressures: how near each limit the peak comes.
        object_bytes: the size of an answer in the bucket, which is not in the bill.
    """

    first: Units
    duplicate: Units
    month: Units
    stored_gb: float
    bill: Bill
    without_index: Bill | None
    shards: int
    pressures: tuple[Pressure, ...]
    object_bytes: int

    @property
    def is_hot(self) -> bool:
        """Whether the peak is throttled somewhere."""
        return any(each.verdict == "hot" for each in self.pressures)


def plan(workload: Workload, prices: Prices) -> Plan:
    """The plan of a workload."""
    items = Items(workload)
    month, bill = _month(workload, items, prices)
    without = None
    if workload.shards and not workload.needs_index:
        bare = replace(workload, shards=0)
        _, without = _month(bare, Items(bare), prices)
    return Plan(
        first=items.first(),
        duplicate=items.duplicate(),
        month=month,
        stored_gb=_stored_gb(workload, items),
        bill=bill,
        without_index=without,
        shards=shards_for(workload),
        pressures=(*_pressures(workload, items),),
        object_bytes=items.object_bytes,
    )


def shards_for(workload: Workload) -> int:
    """The shards that keep each of them at most half full at the peak."""
    moves = Items(replace(workload, shards=DUE_SHARDS)).first().index
    return max(DUE_SHARDS, ceil(workload.peak_rps * moves / 2 / _FIRST_REQUESTS_A_SHARD))


def _month(workload: Workload, items: Items, prices: Prices) -> tuple[Units, Bill]:
    firsts = workload.rps * MONTH_S
    units = items.first().times(firsts) + items.duplicate().times(firsts * workload.duplicates)
    # The reconciler queries each shard once a minute: half a unit, eventually consistent.
    units += Units(read=0.5 * _MINUTES * workload.shards)
    stored = _stored_gb(workload, items)
    bill = Bill(
        table_writes=units.write / 1e6 * prices.write,
        index_writes=units.index / 1e6 * prices.write,
        reads=units.read / 1e6 * prices.read,
        storage=stored * prices.storage,
        backup=stored * prices.backup,
    )
    return units, bill


def _stored_gb(workload: Workload, items: Items) -> float:
    return workload.rps * (workload.retention_s + TTL_LATE_S) * items.stored_bytes / GB


def _pressures(workload: Workload, items: Items) -> Iterator[Pressure]:
    first, peak = items.first(), workload.peak_rps
    records = first.write - items.outbox_writes
    writes = peak * (records + workload.duplicates * items.duplicate().write)
    yield Pressure(
        what="table",
        per_second=writes,
        limit=TABLE_WRITES,
        advice="ask AWS for a larger quota, or split the records over several tables",
    )
    yield Pressure(
        what="table, on its first day",
        per_second=writes,
        limit=NEW_TABLE_WRITES,
        advice="set a warm throughput for the table and its index before the launch",
    )
    if workload.shards:
        yield Pressure(
            what="fullest shard of the index",
            per_second=_fullest(peak * first.index / workload.shards, first.index),
            limit=PARTITION_WRITES,
            advice=_shards_advice(shards_for(workload)),
        )
    if workload.limits:
        yield Pressure(
            what="quota counter of the largest tenant",
            per_second=peak * workload.largest_tenant,
            limit=COUNTER_KEYS * workload.quota_shards,
            advice=_counters_advice(_counters(peak * workload.largest_tenant)),
        )
    if items.outbox_writes:
        # The ids of messages are random, so no partition of it has more than its part.
        yield Pressure(
            what="outbox table",
            per_second=peak * items.outbox_writes,
            limit=TABLE_WRITES,
            advice="ask AWS for a larger quota, or give some operations an outbox of their own",
        )
    # With a quota, a repeat reads the record and does not write.
    again = 0 if workload.limits else write_units(items.record_bytes)
    yield Pressure(
        what="busiest key",
        per_second=workload.busiest_key * again,
        limit=PARTITION_WRITES,
        advice="this key alone is throttled: find who repeats it, and make that client wait",
    )


def _fullest(mean: float, each: float) -> float:
    # Keys are hashed, so a shard's requests in a second are Poisson; three deviations are the
    # fullest of some hundred.
    requests = mean / each
    return each * (requests + 3 * sqrt(requests))


def _shards_advice(shards: int) -> str:
    if shards > MOST_DUE_SHARDS:
        return (
            f"ONCEKEY_DUE_SHARDS is {MOST_DUE_SHARDS} at most, and this peak needs {shards}: split"
            " the records over several tables"
        )
    return f"set ONCEKEY_DUE_SHARDS={shards} in all functions and the reconciler"


def _counters_advice(shards: int) -> str:
    if shards > MOST_QUOTA_SHARDS:
        return (
            f"a Quota has {MOST_QUOTA_SHARDS} shards at most, and this tenant needs {shards}: leave"
            " the quota out, and let API Gateway limit this tenant"
        )
    return f"set shards={shards} in its Quota"


def _counters(per_second: float) -> int:
    return max(1, ceil(per_second / COUNTER_KEYS))
