"""`oncekey move`: copy the records of one table to another."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from oncekey_operator.arguments import reason
from oncekey_operator.exits import CommandError, Exit, UsageError
from oncekey_operator.output import (
    Progress,
    add_output,
    confirm,
    print_json,
    print_pairs,
    relative,
)
from oncekey_operator.targets import add_target, target_of

if TYPE_CHECKING:
    import argparse

    from oncekey_operator.targets import Target


# Passes of one move follow each other within hours. Records are kept for a day by default.
_LATE_MS = 12 * 3_600_000


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command line of `oncekey move`."""
    move: argparse.ArgumentParser = commands.add_parser(
        "move",
        help="copy the records of one table to another",
        description="Copies what is in one table of records to another of the same account and"
        " Region. It may be interrupted and repeated, and run while the old table serves. Exit"
        " status 1 if something is left: run it again. The guide on moving tables has the whole"
        " procedure.",
    )
    move.add_argument("--from", dest="old_table", metavar="NAME", help="the old table (as --table)")
    move.add_argument("--to", required=True, metavar="NAME", help="the new table")
    move.add_argument(
        "--even-if",
        choices=("late",),
        default="",
        help="copy although a pass between the two was whole more than twelve hours ago",
    )
    move.add_argument(
        "--reason", type=reason, required=True, metavar="TEXT", help="why, for the audit table"
    )
    move.add_argument("--yes", action="store_true", help="do not ask")
    add_output(move)
    add_target(move)
    return move


def run(options: argparse.Namespace) -> int:
    """Copy the records, in one pass."""
    from oncekey_operator.actions.acting import acting_on
    from oncekey_operator.actions.moving import ACTION, WHOLE, move, whither

    if options.old_table is not None:
        if options.table is not None:
            raise UsageError("--from and --table both name the old table: give one of them")
        options.table = options.old_table
    target = target_of(options)
    source, to = target.table, options.to
    if source == to:
        raise UsageError("--from and --to name the same table")
    client = target.dynamodb
    for name in (source, to):
        _check_schema(client, name)
    if not options.even_if:
        _check_time(target, source, to)
    question = f"Every record of {source} is copied to {to}."
    if not confirm(question, expected="yes", assumed=options.yes):
        raise CommandError("nothing was copied")
    count = int(client.describe_table(TableName=source)["Table"].get("ItemCount", 0))
    acting = acting_on(target, why=options.reason)
    intention = acting.audit.intend(ACTION, pk=_pk(source), before=whither(to))
    outcome, after = "failed", ""
    try:
        with Progress("copy", count) as progress:
            moved = move(client, source, to, acting.clock.now_ms(), progress.show)
        outcome = WHOLE if moved.is_whole else "not-whole"
        after = f"{moved.written} written, {moved.present} present, {moved.running} running"
    finally:
        intention.end(outcome, after=after)
    if options.json:
        print_json(asdict(moved) | {"is_whole": moved.is_whole})
    else:
        print_pairs([(name, str(number)) for name, number in asdict(moved).items()])
        if moved.running:
            print("Attempts still run: pause new work, wait for their leases, and run this again.")
        if moved.conflicts:
            print("Both tables have changed some records: only one table may serve at a time.")
        if moved.unreadable:
            print("Some items cannot be read: `oncekey list` shows the records that are open.")
    return Exit.DONE if moved.is_whole else Exit.REFUSED


def _check_schema(client: Any, table: str) -> None:
    """Return if it has the key of a table of records.

    Nothing else tells it of a table that gets no item: the pass would be whole.

    Raises:
        ClientError: there is no such table.
        UsageError: it has another key.
    """
    from oncekey.store.dynamodb.schema import IDEMPOTENCY

    key = {"AttributeName": IDEMPOTENCY.partition_key, "KeyType": "HASH"}
    if client.describe_table(TableName=table)["Table"]["KeySchema"] != [key]:
        raise UsageError(f"{table} is no table of records: it has another key")


def _pk(table: str) -> str:
    return f"table#{table}"


def _check_time(target: Target, source: str, to: str) -> None:
    """Return if no record can have ended and been deleted on the table that took over.

    Raises:
        CommandError: a pass between the two tables, either way, was whole long ago.
    """
    from oncekey.clock import SystemClock
    from oncekey_operator.actions.moving import whole_since_ms
    from oncekey_operator.audit import AuditTable

    if not target.audit_table:
        return  # the first audit line says what to do
    audit, now_ms = AuditTable(target.dynamodb, target.audit_table), SystemClock().now_ms()
    for left, taken in ((source, to), (to, source)):
        since_ms = whole_since_ms(audit.of(_pk(left)), taken)
        if since_ms is not None and now_ms - since_ms > _LATE_MS:
            raise CommandError(
                f"{taken} had everything of {left} {relative(since_ms, now_ms)}. What has ended"
                f" there since, and was deleted after its retention, is still open in {left}, and"
                f" would begin again. If {taken} has not served since, say --even-if late"
            )
