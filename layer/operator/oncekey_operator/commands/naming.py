"""Options that several commands have: which operation, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey_operator.exits import UsageError

if TYPE_CHECKING:
    import argparse

    from oncekey.record.record import Record
    from oncekey.store.store import Store


def add_operation(parser: argparse.ArgumentParser) -> None:
    """Add the options that name one operation."""
    which = parser.add_argument_group("which operation", "by its id or reference, or by its key")
    which.add_argument(
        "id",
        nargs="?",
        metavar="ID",
        help="the operation's id, if its status can be asked for by it, or its reference",
    )
    which.add_argument("--key", help="the client's Idempotency-Key")
    which.add_argument("--tenant", help="the tenant whose key it is")
    which.add_argument("--operation", metavar="NAME", help="the operation's name")
    which.add_argument(
        "--principal", default="", help="the principal, if the operation is scoped by it"
    )


def operation_of(options: argparse.Namespace, store: Store) -> Record:
    """The record of the operation that the options name.

    Raises:
        UsageError: they name none, or name it twice.
        CommandError: there is no such record.
        StoreError: the store did not answer.
    """
    from oncekey_operator.records import finding

    if (options.id is None) == (options.key is None):
        raise UsageError("name one operation: its ID, or --key, --tenant and --operation")
    if options.id is None:
        if options.tenant is None or options.operation is None:
            raise UsageError("--key needs --tenant and --operation")
        record = finding.by_key(
            store,
            tenant=options.tenant,
            operation=options.operation,
            key=options.key,
            principal=options.principal,
        )
        return finding.found(record, f"this key of {options.tenant} for {options.operation}")
    if "." not in options.id:
        record = finding.by_operation_id(store, options.id)
        return finding.found(record, f"operation {options.id}")
    try:
        return finding.found(finding.by_reference(store, options.id), "this reference")
    except ValueError as error:
        raise UsageError(str(error)) from error


def add_reason(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that changes something."""
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why, for the audit table")
    parser.add_argument("--yes", action="store_true", help="do not ask")
