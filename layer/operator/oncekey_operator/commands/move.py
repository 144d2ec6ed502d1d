"""`oncekey move`: copy the records of one table to another."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from oncekey_operator.exits import CommandError, Exit, UsageError
from oncekey_operator.output import Progress, add_output, confirm, print_json, print_pairs
from oncekey_operator.targets import add_target, target_of

if TYPE_CHECKING:
    import argparse


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
    move.add_argument("--from", dest="table", metavar="NAME", help="the old table (as --table)")
    move.add_argument("--to", required=True, metavar="NAME", help="the new table")
    move.add_argument("--reason", required=True, metavar="TEXT", help="why, for the audit table")
    move.add_argument("--yes", action="store_true", help="do not ask")
    add_output(move)
    add_target(move)
    return move


def run(options: argparse.Namespace) -> int:
    """Copy the records, in one pass."""
    from oncekey_operator.actions.acting import acting_on
    from oncekey_operator.actions.moving import move

    target = target_of(options)
    source, to = target.table, options.to
    if source == to:
        raise UsageError("--from and --to name the same table")
    question = f"Every record of {source} is copied to {to}."
    if not confirm(question, expected="yes", assumed=options.yes):
        raise CommandError("nothing was copied")
    client = target.dynamodb
    count = int(client.describe_table(TableName=source)["Table"].get("ItemCount", 0))
    acting = acting_on(target, why=options.reason)
    intention = acting.audit.intend("move", pk=f"table#{source}", before=f"to {to}")
    outcome, after = "failed", ""
    try:
        with Progress("copy", count) as progress:
            moved = move(client, source, to, acting.clock.now_ms(), progress.show)
        outcome = "done" if moved.is_whole else "not-whole"
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
