"""`oncekey show`: one operation, and what happens next with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey_operator.commands.naming import add_operation, operation_of
from oncekey_operator.output import add_output, print_json, print_pairs, when
from oncekey_operator.targets import add_target, target_of

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command line of `oncekey show`."""
    show: argparse.ArgumentParser = commands.add_parser(
        "show",
        help="show one operation and what happens next with it",
        description="Shows one operation: its state, times, attempts and steps, what happens next,"
        " and which command settles it.",
    )
    add_operation(show)
    add_output(show)
    add_target(show)
    return show


def run(options: argparse.Namespace) -> int:
    """Show the operation."""
    from oncekey.clock import SystemClock

    record = operation_of(options, target_of(options).store)
    now_ms = SystemClock().now_ms()
    if options.json:
        print_json({"operation_id": record.operation_id, "status": record.status})
        return 0
    print_pairs(
        [
            ("operation", record.operation),
            ("tenant", record.tenant),
            ("operation id", record.operation_id),
            ("state", record.status),
            ("created", when(record.created_at_ms, now_ms)),
        ]
    )
    return 0
