"""What a billion first requests a day ask of DynamoDB: money, shards of the index, tables.

`python -m tests.support.capacity` draws the tables in layer/docs/reference/cost.md anew.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from oncekey.record.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PAGE = "layer/docs/reference/cost.md"
A_DAY = 1_000_000_000
AVERAGE = A_DAY // 86_400
# Busy hours have about three times the average.
PEAK = 3 * AVERAGE
USD_A_MILLION_WRITES, USD_A_MILLION_READS = 0.625, 0.125
PARTITION_WRITES, TABLE_WRITES = 1_000, 40_000
# A record goes into the index and out of it.
INDEX_WRITES = 2
# Read and write units of a first request and of a duplicate. `tests/benchmarks` counts them.
UNITS = {
    "oncekey": {"first-call": (0, 2 + 2), "large-answer": (0, 8 + 2), "large-replay": (2, 1)},
    "oncekey, no index": {"first-call": (0, 2), "large-answer": (0, 8), "large-replay": (2, 1)},
    "Powertools": {"first-call": (0, 2), "large-answer": (0, 24), "large-replay": (0, 23)},
}
_SECONDS = 3
_TENANTS = 1_000
_OPERATIONS = {"POST /payments": 70, "POST /refunds": 20, "POST /payouts": 10}


def money() -> Iterator[str]:
    """What a day costs."""
    yield "| | a small answer | 20 KB | a million duplicates of 20 KB |"
    yield "| --- | --- | --- | --- |"
    for name, units in UNITS.items():
        small, large = (_usd(*units[case]) * A_DAY / 1e6 for case in ("first-call", "large-answer"))
        duplicate = _usd(*units["large-replay"])
        yield f"| {name} | USD {small:,.0f} | USD {large:,.0f} | USD {duplicate:,.2f} |"


def shards() -> Iterator[str]:
    """How full the busiest partition of the index is."""
    yield "| first requests a second | shards | busiest shard, writes a second | throttled |"
    yield "| --- | --- | --- | --- |"
    for rate in (AVERAGE, PEAK):
        seconds = [_hashes(rate, second) for second in range(_SECONDS)]
        for number in (16, 32, 64, 128):
            counts = [Counter(each % number for each in second) for second in seconds]
            writes = [INDEX_WRITES * count for second in counts for count in second.values()]
            over = sum(max(0, each - PARTITION_WRITES) for each in writes)
            yield f"| {rate:,} | {number} | {max(writes):,} | {over / sum(writes):.0%} |"


def tables() -> Iterator[str]:
    """How full the busiest of several tables is at the peak, by what they are split."""
    yield "| split | tables | busiest table, writes a second | of the default quota |"
    yield "| --- | --- | --- | --- |"
    draw = random.Random(1)  # noqa: S311 -- the same requests in every run
    names = [f"tenant-{number}" for number in range(1, _TENANTS + 1)]
    alike = draw.choices(names, k=PEAK)
    # The second tenant has half the requests of the first, the third a third, and so on.
    unlike = draw.choices(names, [1 / number for number in range(1, _TENANTS + 1)], k=PEAK)
    operations = draw.choices(list(_OPERATIONS), list(_OPERATIONS.values()), k=PEAK)
    yield _table_row("none", 1, ["" for _ in range(PEAK)])
    yield _table_row("by operation (70, 20 and 10 %)", 3, operations)
    for number in (2, 4, 8):
        yield _table_row("by tenant, all alike", number, cells(alike, number))
    for number in (2, 4, 8):
        yield _table_row("by tenant, the largest has 13 %", number, cells(unlike, number))


def cells(tenants: Iterable[str], number: int) -> list[int]:
    """The table of each request, as the page's example finds it."""
    return [crc32(tenant.encode()) % number for tenant in tenants]


def page_with(page: str) -> str:
    """`page` with its tables drawn anew."""
    for name, drawn in {"money": money, "shards": shards, "tables": tables}.items():
        begin, end = f"<!-- {name}: drawn by tests/support/capacity.py -->", f"<!-- /{name} -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = "\n".join([f"{before}{begin}", *drawn(), f"{end}{after}"])
    return page


def _usd(reads: int, writes: int) -> float:
    return writes * USD_A_MILLION_WRITES + reads * USD_A_MILLION_READS


def _hashes(rate: int, second: int) -> list[int]:
    keys = (f"{second}-{number}" for number in range(rate))
    identities = (Identity(tenant="acme", operation="POST /payments", key=key) for key in keys)
    return [int(identity.due_shard(2**32)) for identity in identities]


def _table_row(split: str, number: int, requests: Iterable[object]) -> str:
    _, most = Counter(requests).most_common(1)[0]
    # The table's writes. Those of its index have a quota of the same size for themselves.
    writes = 2 * most
    return f"| {split} | {number} | {writes:,} | {writes / TABLE_WRITES:.0%} |"


def main() -> None:
    """Draw the tables anew."""
    path = Path(__file__).parents[2] / PAGE
    path.write_text(page_with(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
