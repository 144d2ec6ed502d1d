"""The figures of a run as a page of the documentation."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from oncekey.settings import TRANSPORTS
from tests.benchmarks.cases import CASES
from tests.benchmarks.load import THREADS
from tests.benchmarks.targets import DISPLAY_NAMES, outcomes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.benchmarks.batches import Throughput
    from tests.benchmarks.cold import ColdStarts
    from tests.benchmarks.figures import Figures
    from tests.benchmarks.load import Load
    from tests.benchmarks.measuring import Times
    from tests.benchmarks.suite import Costs

_INTRODUCTION = """\
# Benchmarks

What does a protected call cost, beside Powertools' idempotency utility and beside bare boto3?
`make bench` measures it on your machine, and writes this page and its plot.

![CPU a call, as a multiple of bare boto3's](benchmarks.svg)

- **oncekey** is `@idempotent` with its default store, and the tenant from a verified claim.
  Its transport is `sdk`, which is boto3 and the default, or `direct`.
- **Powertools** is `@idempotent` of `aws-lambda-powertools` on DynamoDB, with the key from the
  header and `payload_validation_jmespath` on the body. For what it lacks, its handler does the work
  itself: the business write and the message in a transaction of their own, and each step in an
  `idempotent_function`.
- **Bare boto3** is a client with default settings. It sends the same requests as oncekey, and
  nothing else.

The contenders take turns in short blocks of one run. A ratio compares two blocks of the same round.
The median of all rounds is shown, and the quartiles in parentheses. Below 1, oncekey is faster."""

_GOALS = "The project's own goals. A missed goal fails no test."

_TRIED = """\
- **A replay and a refused duplicate with the sdk transport** are one PutItem that is refused. Two
  thirds of their CPU are botocore's, for which Powertools and bare boto3 pay as well. Taken out of
  botocore were the validation of parameters, the User-Agent of each request, the retry handler and
  most of the signature, whose key is kept for a day. Legacy retries, the other checksums and
  compressions, and endpoints without account ids were no faster. The rest goes with `direct`.
- **`import oncekey`**: more than half of its time are modules of the standard library, above all
  `typing`, `re`, `logging`, `inspect` and `enum`. Of our modules, about 70 remain, which the first
  call needs. To import them with it would only move their time from the start of the sandbox, when
  Lambda gives the function more CPU, to the first request. Classes for which no code is generated
  halved the time of ours.
- **A body of 64 KB** is parsed and written again, so that the order of its keys and its white space
  do not matter. Powertools hashes the body as text, as it is set up here."""

_STUB = """\
Canned answers take the place of botocore's HTTP. Serialising, signing, parsing and the checksum of
the answer are measured. Times are microseconds of CPU a call."""

_LOOPBACK = """\
Requests go through a socket to a server in another process, without TLS. Times are microseconds a
call. The wall time contains whatever else the machine does."""

_COSTS = """\
Units are computed from the items by DynamoDB's rules. The second summand of the write units is for
the index `due`."""

_COLD = """\
Each start is a fresh process that imports the library, decorates one handler and answers one call
over the loopback server. The interpreter's own start is not counted. Ratios are of CPU up to the
first answer. A ratio is the median of the ratios of each round, so it can differ from the ratio of
the two medians shown."""

_BATCHES = """\
Each function works on one batch after the other, over canned answers. In this table everything is
counted, from the event to the answer."""

_SHARES = """\
Shares of oncekey's own calls on the stub, under a profiler. The time of the standard library and of
C functions belongs to the package that called them."""

_LOADS = """\
First calls over canned answers. Python runs one thread at a time, so 32 threads share one core. The
last column shows how many more memory blocks are allocated after each further thousand calls with
new keys."""


def page(figures: Figures) -> str:
    """The whole page."""
    parts = [
        _INTRODUCTION,
        _table(("", ""), figures.where.items()),
        "## Targets",
        _GOALS,
        _targets(figures),
        "Where the time goes that costs most, and what was tried:",
        _TRIED,
    ]
    for over, text in (("stub", _STUB), ("loopback", _LOOPBACK)):
        for transport in TRANSPORTS:
            times = figures.times.get((transport, over))
            if times:
                parts += [
                    f"## CPU a call: {transport} transport, {over}",
                    text,
                    _calls(times, over),
                ]
    if figures.shares:
        parts += ["## Where the CPU goes", _SHARES, _shares(figures.shares)]
    if figures.costs:
        parts += ["## Requests, bytes and units a call", _COSTS, _costs(figures.costs)]
    for (transport, tls), starts in figures.cold.items():
        how = "over TLS" if tls else "without TLS"
        parts += [f"## Cold start: {transport} transport, {how}", _COLD, _cold(starts)]
    if figures.batches:
        parts += ["## Relay, worker and reconciler", _BATCHES, _batches(figures.batches)]
    if figures.loads:
        parts += [f"## {THREADS} threads, and memory", _LOADS, _loads(figures.loads)]
    return "\n\n".join(parts) + "\n"


def _targets(figures: Figures) -> str:
    rows = [
        (
            each.what,
            each.against,
            f"≤ {each.at_most:g}",
            "not measured" if each.measured is None else f"{each.measured:.3g}",
            {True: "met", False: "**missed**", None: ""}[each.is_met],
        )
        for each in outcomes(figures)
    ]
    return _table(("what", "against", "target", "measured", ""), rows)


def _calls(times: Mapping[str, Times], over: str) -> str:
    kinds = ("cpu",) if over == "stub" else ("cpu", "wall")
    head = ["case", "what"]
    for kind in kinds:
        name = {"cpu": "", "wall": "wall: "}[kind]
        head += [f"{name}oncekey", "Powertools", "bare boto3", "to Powertools", "to bare boto3"]
    rows = []
    for case, each in times.items():
        row = [f"`{case}`", CASES[case].description]
        for kind in kinds:
            of = getattr(each, kind)
            row += [f"{median(of[name]):,.0f}" for name in ("oncekey", "powertools", "bare")]
            row += [_ratio(each.ratio("oncekey", peer, of=kind)) for peer in ("powertools", "bare")]
        rows.append(row)
    return _table(head, rows)


def _shares(shares: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    rows = [
        (
            f"`{case}`, {transport} transport",
            ", ".join(f"{name} {share:.0%}" for name, share in of_case.items() if share >= 0.01),
        )
        for transport, of_transport in shares.items()
        for case, of_case in of_transport.items()
    ]
    return _table(("case", "packages"), rows)


def _costs(costs: Mapping[str, Mapping[str, Costs]]) -> str:
    head = (
        "case",
        "library",
        "requests",
        "bytes sent",
        "bytes received",
        "read units",
        "write units",
    )
    rows = [
        (
            f"`{case}`" if name == "oncekey" else "",
            DISPLAY_NAMES[name],
            str(each.requests),
            f"{each.sent_bytes:,}",
            f"{each.received_bytes:,}",
            str(each.read_units),
            f"{each.write_units} + {each.index_units}"
            if each.index_units
            else str(each.write_units),
        )
        for case, of_case in costs.items()
        for name, each in of_case.items()
    ]
    return _table(head, rows)


def _cold(starts: ColdStarts) -> str:
    head = ("", "oncekey", "Powertools", "bare boto3", "to Powertools", "to bare boto3")
    figures = (
        ("cpu_us", "CPU, ms", 1000),
        ("wall_us", "wall, ms", 1000),
        ("modules", "modules", 1),
    )
    rows = []
    for mark, label in (("decorated", "handler decorated"), ("answered", "first call answered")):
        for figure, unit, per in (*figures, ("rss_kb", "memory, MB", 1024)):
            cells = [
                f"{starts.middle(name, mark, figure) / per:,.0f}"
                for name in ("oncekey", "powertools", "bare")
            ]
            is_compared = (mark, figure) == ("answered", "cpu_us")
            ratios = [
                _ratio(starts.ratio("oncekey", peer)) if is_compared else ""
                for peer in ("powertools", "bare")
            ]
            rows.append((f"{label}: {unit}", *cells, *ratios))
        ours = f"{starts.middle('oncekey', mark, 'ours'):,.0f}"
        rows.append((f"{label}: modules of oncekey", ours, "", "", "", ""))
    return _table(head, rows)


def _batches(batches: Mapping[str, Throughput]) -> str:
    rows = [
        (
            name,
            str(each.items),
            f"{each.per_second:,.0f}",
            ", ".join(f"{count} {operation}" for operation, count in each.requests.items()),
        )
        for name, each in batches.items()
    ]
    head = ("function", "items in a batch", "items a second of CPU", "requests for a batch")
    return _table(head, rows)


def _loads(loads: Mapping[str, Load]) -> str:
    rows = [
        (
            DISPLAY_NAMES[name],
            f"{each.alone_us:,.0f}",
            f"{each.together_us:,.0f}",
            f"{1e6 / each.together_us:,.0f}",
            ", ".join(f"{blocks:,}" for blocks in each.kept_blocks),
        )
        for name, each in loads.items()
    ]
    head = (
        "contender",
        "CPU a call, 1 thread",
        f"{THREADS} threads",
        "calls a second of CPU",
        "memory blocks kept",
    )
    return _table(head, rows)


def _ratio(of: tuple[float, float, float]) -> str:
    middle, low, high = of
    return f"**{middle:.2f}** ({low:.2f} to {high:.2f})"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
