"""`oncekey plan`: what a workload costs in a month, and where a partition would run hot."""

from __future__ import annotations

import argparse
import re
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oncekey_operator.arguments import number, one_or_more, positive, up_to, whole
from oncekey_operator.exits import UsageError
from oncekey_operator.output import add_output, print_json, print_pairs, print_table
from oncekey_operator.planning.limits import MOST_DUE_SHARDS, MOST_QUOTA_SHARDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey_operator.planning.plan import Bill, Plan
    from oncekey_operator.planning.workload import Workload

# Busy hours have about three times the average.
_PEAK = 3
_UNITS_S = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
_DURATION = re.compile(r"(\d+)\s*(s|min|h|d)")
# More than any request, answer or message has: API Gateway takes 10 MB, and Lambda answers 6 MB.
_MOST_BYTES = 10_000_000
# More than one record has room for.
_MOST_STEPS = 10_000
_PRICES = ("write", "read", "storage", "backup")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command line of `oncekey plan`."""
    plan: argparse.ArgumentParser = commands.add_parser(
        "plan",
        help="add up what a workload costs, and find where a partition would run hot",
        description="Adds up the units, storage and money of a month for one operation, on demand,"
        " with and without the index `due`, and says how near each limit of DynamoDB the peak"
        " comes. It calls nobody. Lambda, API Gateway, SQS and S3 are not included.",
    )
    _add_requests(plan)
    _add_operation(plan)
    plan.add_argument(
        "--shards",
        type=up_to(MOST_DUE_SHARDS),
        default=16,
        metavar="N",
        help="ONCEKEY_DUE_SHARDS (16); 0 is no index",
    )
    plan.add_argument(
        "--price",
        type=_price,
        action="append",
        default=[],
        metavar="NAME=USD",
        help="another price: write or read (a million units), storage or backup (a GB and month)",
    )
    add_output(plan)
    return plan


def _add_requests(plan: argparse.ArgumentParser) -> None:
    requests = plan.add_argument_group("requests")
    requests.add_argument(
        "--rps",
        type=positive,
        required=True,
        metavar="N",
        help="first requests a second, on average over the month",
    )
    requests.add_argument(
        "--peak-rps", type=positive, metavar="N", help="the same at the peak (three times --rps)"
    )
    requests.add_argument(
        "--duplicates",
        type=_share,
        default=0.02,
        metavar="SHARE",
        help="repeats for each first request, such as 0.02 or 2%% (2%%)",
    )
    requests.add_argument(
        "--busiest-key",
        type=_share,
        default=10.0,
        metavar="N",
        help="how often a second one key is repeated at worst (10)",
    )
    answer = requests.add_mutually_exclusive_group()
    answer.add_argument(
        "--answer-bytes",
        type=up_to(_MOST_BYTES),
        default=300,
        metavar="N",
        help="the size of an answer's body (300). It is taken to compress to about half",
    )
    answer.add_argument(
        "--answer", type=Path, metavar="FILE", help="a body itself, compressed as the layer does"
    )
    requests.add_argument(
        "--retention",
        type=_duration,
        default=86_400,
        metavar="TIME",
        help="how long answers are replayed, such as 90min, 24h or 30d (24h)",
    )


def _add_operation(plan: argparse.ArgumentParser) -> None:
    operation = plan.add_argument_group("operation")
    for name, what in (
        ("--steps", "steps of recorded effects without idempotent=True (0)"),
        ("--idempotent-steps", "steps with it (0)"),
        ("--messages", "messages that are published with the answer (0)"),
    ):
        operation.add_argument(name, type=up_to(_MOST_STEPS), default=0, metavar="N", help=what)
    operation.add_argument(
        "--message-bytes",
        type=up_to(_MOST_BYTES),
        default=500,
        metavar="N",
        help="a message's payload (500)",
    )
    operation.add_argument("--queued", action="store_true", help='a job: mode="queued"')
    operation.add_argument(
        "--request-bytes",
        type=up_to(_MOST_BYTES),
        default=1_500,
        metavar="N",
        help="the event that a job's message carries (1500)",
    )
    operation.add_argument(
        "--quota-limits",
        type=int,
        choices=(0, 1, 2),
        default=0,
        help="how many of new_keys and active_keys its quota has (0)",
    )
    operation.add_argument(
        "--quota-shards", type=_quota_shards, default=1, metavar="N", help="its quota's shards (1)"
    )
    operation.add_argument(
        "--largest-tenant",
        type=_share,
        default=1.0,
        metavar="SHARE",
        help="the largest tenant's share of all requests, such as 0.13 or 13%% (100%%)",
    )


def run(options: argparse.Namespace) -> int:
    """Print the plan."""
    from oncekey_operator.planning import prices
    from oncekey_operator.planning.plan import plan

    workload = _workload(options)
    used = prices.Prices().changed(dict(options.price))
    made = plan(workload, used)
    if options.json:
        print_json(
            {
                "region": prices.REGION,
                "prices": {"as_of": prices.AS_OF, "source": prices.SOURCE, **asdict(used)},
                **_values(made),
            }
        )
        return 0
    _print(workload, made)
    print()
    print(
        f"Prices: {prices.REGION}, {prices.AS_OF}, on demand ({prices.SOURCE}). Replace one with"
        " --price write=0.7."
    )
    return 0


def _workload(options: argparse.Namespace) -> Workload:
    from oncekey_operator.planning.workload import Workload, body_of

    body = body_of(options.answer_bytes)
    if options.answer is not None:
        try:
            body = options.answer.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--answer {options.answer} cannot be read: {error}") from error
    given = {each.name: getattr(options, each.name, None) for each in fields(Workload)}
    workload = Workload(
        **{
            **given,
            "answer": body,
            "retention_s": options.retention,
            "limits": options.quota_limits,
            "peak_rps": options.peak_rps or _PEAK * options.rps,
        }
    )
    if workload.needs_index and not workload.shards:
        raise UsageError(
            "--shards 0: jobs, steps and messages need the index, because a reconciler finds their"
            " half-done records by it"
        )
    return workload


def _print(workload: Workload, made: Plan) -> None:
    print_pairs(
        [
            ("first request", _units(made.first)),
            ("a repeat", _units(made.duplicate)),
            ("peak", f"{workload.peak_rps:,.0f} first requests a second"),
            ("shards", f"{made.shards} (ONCEKEY_DUE_SHARDS for this peak; now {workload.shards})"),
            ("table's size", f"{made.stored_gb:,.1f} GB"),
        ]
    )
    if made.object_bytes:
        print_pairs(
            [("in the bucket", f"{made.object_bytes:,} bytes an answer; S3 is not in the bill")]
        )
    print()
    bills = {"USD a month": made.bill}
    if made.without_index:
        bills["without the index"] = made.without_index
    print_table(["", *bills], _bill_rows([*bills.values()]))
    print()
    print_table(
        ["at the peak", "a second", "limit", "used", ""],
        [
            [
                each.what,
                f"{each.per_second:,.0f}",
                f"{each.limit:,.0f}",
                f"{each.share:.0%}",
                each.verdict,
            ]
            for each in made.pressures
        ],
    )
    # A table on a terminal is cut to its width. What is to do is not.
    for each in made.pressures:
        if each.verdict != "ok":
            print(f"{each.what}: {each.advice}.")


def _bill_rows(bills: list[Bill]) -> Iterator[list[str]]:
    for name in (*(each.name for each in fields(bills[0])), "total"):
        yield [name.replace("_", " "), *(f"{getattr(bill, name):,.2f}" for bill in bills)]


def _units(units: Any) -> str:
    return f"write units {units.write:g}, of the index {units.index:g}, read units {units.read:g}"


def _values(made: Plan) -> dict[str, Any]:
    """The plan for programs."""
    values = asdict(made)
    for name in ("bill", "without_index"):
        bill = getattr(made, name)
        values[name] = bill and {**values[name], "total": bill.total}
    values["pressures"] = [
        {**asdict(each), "share": each.share, "verdict": each.verdict} for each in made.pressures
    ]
    return values


def _quota_shards(text: str) -> int:
    shards = one_or_more(text)
    if shards <= MOST_QUOTA_SHARDS:
        return shards
    raise argparse.ArgumentTypeError(f"use {MOST_QUOTA_SHARDS} at most")


def _share(text: str) -> float:
    value = number(text[:-1]) / 100 if text.endswith("%") else number(text)
    if value >= 0:
        return value
    raise argparse.ArgumentTypeError(f"{text!r} is less than 0")


def _duration(text: str) -> int:
    if found := _DURATION.fullmatch(text.strip()):
        return whole(found[1]) * _UNITS_S[found[2]]
    raise argparse.ArgumentTypeError(f"{text!r} is no time: use 90min, 24h or 30d")


def _price(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    if name in _PRICES and value:
        return name, positive(value)
    raise argparse.ArgumentTypeError(
        f"{text!r} is no price: use NAME=USD, with one of {', '.join(_PRICES)}"
    )
