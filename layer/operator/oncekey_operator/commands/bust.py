"""`oncekey bust`: forget a key, so that it may run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey_operator.commands.naming import add_operation, add_reason, operation_of
from oncekey_operator.exits import Exit
from oncekey_operator.output import confirm
from oncekey_operator.targets import add_target, target_of

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command line of `oncekey bust`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "bust",
        help="forget a key, so that it may run again",
        description="Forgets the record of a key. The next request with the key runs as a new"
        " operation, with new keys for the provider. This is safe for an operation that has"
        " proved that nothing happened, or that no worker has begun. An operation whose"
        " attempt still runs is never forgotten.",
    )
    add_operation(parser)
    parser.add_argument(
        "--even-if",
        choices=("completed", "unknown", "half-done"),
        default="",
        help="forget it although it may take effect a second time",
    )
    add_reason(parser)
    add_target(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    """Forget the operation."""
    from oncekey_operator.actions.acting import acting_on, storage_of
    from oncekey_operator.actions.removal import DANGERS, bust

    target = target_of(options)
    record = operation_of(options, target)
    danger = f" {DANGERS[options.even_if].capitalize()}." if options.even_if else ""
    question = f"{record.operation} of {record.tenant}, {record.operation_id}.{danger}"
    if not confirm(question, expected="bust", assumed=options.yes):
        return Exit.REFUSED
    acting = acting_on(target, why=options.reason)
    bust(acting, storage_of(target), record, even_if=options.even_if)
    print(f"{record.operation_id}: forgotten; the key runs as a new operation")
    return Exit.DONE
