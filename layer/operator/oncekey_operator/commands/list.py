"""`oncekey list`: the operations in a state, of a tenant, or of one name."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING

from oncekey_operator.arguments import whole
from oncekey_operator.exits import UsageError
from oncekey_operator.output import (
    Progress,
    add_output,
    duration,
    plain,
    print_json,
    print_table,
)
from oncekey_operator.targets import add_target, target_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from oncekey.record.record import Record
    from oncekey.store.dynamodb.codec import RecordUnreadable
    from oncekey_operator.records.listing import LeftOut, Wanted
    from oncekey_operator.targets import Target

STATES = {
    "unknown": "nobody knows what became of it",
    "escalated": "unknown, and a person was told",
    "in-progress": "its attempt runs, or has died",
    "pending": "it waits for a worker",
    "failed-retryable": "it failed, and may run again: scans the table",
    "completed": "it has its answer: scans the table",
}
_MOST = 50


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command line of `oncekey list`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "list",
        help="list operations by state, tenant or name",
        description="Lists open operations, the longest due first in each part of the index."
        " It reads the index of open records: it costs what it lists, not the size of the table."
        " With --all, --completed, --failed-retryable or a table without that index, it scans"
        " the whole table, and says first what that costs.",
    )
    add_filters(parser)
    parser.add_argument(
        "--limit",
        type=whole,
        default=_MOST,
        metavar="N",
        help=f"list so many at most ({_MOST}); 0 lists all",
    )
    add_output(parser)
    add_target(parser)
    return parser


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which operations are listed."""
    which = parser.add_argument_group(
        "which operations", "without a state: all in the index of open records"
    )
    add_states(which, *STATES)
    which.add_argument("--tenant", help="of this tenant")
    which.add_argument("--operation", metavar="NAME", help="of this name")
    which.add_argument("--all", action="store_true", help="settled ones, too: scans the table")


def add_states(group: argparse._ArgumentGroup, *names: str) -> None:
    """Add the options of these states. Several mean any of them."""
    for name in names:
        group.add_argument(
            f"--{name}",
            dest="states",
            action="append_const",
            const=name,
            default=[],
            help=STATES[name],
        )


def run(options: argparse.Namespace) -> int:
    """List the operations."""
    from oncekey.clock import SystemClock
    from oncekey_operator.records.listing import Wanted
    from oncekey_operator.records.views import view

    target = target_of(options)
    found = listed(target, options)
    now_ms = SystemClock().now_ms()
    shown = list(islice(found, options.limit or None))
    is_more = next(found, None) is not None
    if options.json:
        for record in shown:
            print_json(view(record, now_ms))
    elif shown:
        print_table(HEADERS, (row(each, now_ms) for each in shown), omitted=OMITTED)
    else:
        what = "such" if wanted_by(options) != Wanted() or options.all else "open"
        hint = " Say --all for settled ones." if what == "open" else ""
        print(f"No {what} operations in {target}.{hint}", file=sys.stderr)
    if is_more:
        print(f"There are more than {len(shown)}: say --limit 0 for all.", file=sys.stderr)
    return 0


HEADERS = ("STATE", "AGE", "TRY", "OPERATION", "TENANT", "LAST ERROR", "OPERATION ID")
# What a person decides by stays longest.
OMITTED = ("TRY", "TENANT", "LAST ERROR")


def row(record: Record, now_ms: int) -> tuple[str, ...]:
    """One line of the table."""
    from oncekey_operator.records.views import state

    needs_person = record.escalated_at_ms is not None
    return (
        state(record, now_ms).replace("_", "-") + ("!" if needs_person else ""),
        duration(max(0, now_ms - record.created_at_ms) // 1000),
        str(record.attempt),
        record.operation,
        record.tenant,
        record.last_error or _lease(record, now_ms),
        record.operation_id,
    )


def _lease(record: Record, now_ms: int) -> str:
    """A dead attempt: its lease is over, and nobody has ended it yet."""
    from oncekey.record.record import Status

    is_dead = record.status is Status.IN_PROGRESS and record.is_lease_over(now_ms)
    return "lease over" if is_dead else "-"


def wanted_by(options: argparse.Namespace) -> Wanted:
    """The filters of the options.

    Raises:
        UsageError: one of them is empty.
    """
    from oncekey_operator.records.listing import Wanted

    if "" in (options.tenant, options.operation):
        # It would fit every operation. A script whose variable is unset means none.
        raise UsageError("--tenant or --operation is empty: name it, or leave it out")
    return Wanted(
        states=frozenset(options.states),
        tenant=options.tenant or "",
        operation=options.operation or "",
    )


def listed(target: Target, options: argparse.Namespace) -> Iterator[Record]:
    """The records that the options ask for, by the index if it has them all, else by a scan."""
    from oncekey_operator.records.listing import NOT_IN_INDEX, open_records, table_of

    wanted = wanted_by(options)
    has_index, _ = table_of(target).described()
    if has_index and not options.all and not NOT_IN_INDEX & wanted.states:
        return open_records(target.store, wanted, tell_left_out)
    return scanned(target, wanted)


def tell_left_out(pk: str, error: RecordUnreadable) -> None:
    """Say that an item is left out, because it cannot be read as a record."""
    print(plain(f"left out: {pk}: {error}"), file=sys.stderr)


def scanned(target: Target, wanted: Wanted, left_out: LeftOut = tell_left_out) -> Iterator[Record]:
    """The records that are wanted, by a scan whose cost is said first."""
    from oncekey_operator.records.listing import table_of

    table = table_of(target)
    _, cost = table.described()
    print(
        f"Scanning {target}: about {cost.items} items, {cost.read_units} read units.",
        file=sys.stderr,
    )
    with Progress("scanning", cost.items) as bar:
        yield from table.scanned(wanted, lambda read: bar.show(read, f"{read} items"), left_out)
