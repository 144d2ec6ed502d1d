"""Options that several commands have: which operation, and why."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from oncekey_operator.arguments import reason
from oncekey_operator.exits import CommandError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from oncekey.record.record import Record
    from oncekey_operator.targets import Target


# The keys of records begin so.
_ITEM = "v1#"


def add_operation(parser: argparse.ArgumentParser) -> None:
    """Add the options that name one operation."""
    which = parser.add_argument_group("which operation", "by its id or reference, or by its key")
    which.add_argument(
        "id",
        nargs="?",
        metavar="ID",
        help="the operation's id (of an open operation, or of a job), or its reference",
    )
    which.add_argument(
        "--scan",
        action="store_true",
        help="find the id of any operation by a scan of the whole table; implied by `oncekey dev`",
    )
    which.add_argument("--key", help="the client's Idempotency-Key")
    which.add_argument(
        "--request",
        metavar="FILE",
        help="the request with the key: an event of Lambda as JSON, or the text of the HTTP"
        " request; - is standard input. The operation is METHOD PATH unless --operation names it",
    )
    which.add_argument("--tenant", help="the tenant whose key it is")
    which.add_argument("--operation", metavar="NAME", help="the operation's name")
    which.add_argument(
        "--principal", default="", help="the principal, if the operation is scoped by it"
    )


def operation_of(options: argparse.Namespace, target: Target, *, by_item: bool = False) -> Record:
    """The record of the operation that the options name.

    With `by_item`, the ID may also be the key of an item in the table, as DynamoDB's own reports
    name it. That names whatever operation is there now, so it is enough to look, and not to act.

    Raises:
        UsageError: they name none, or name it twice.
        CommandError: there is no such record.
        StoreError: the store did not answer.
    """
    from oncekey_operator.commands.list import scanned
    from oncekey_operator.records import finding
    from oncekey_operator.records.listing import Wanted

    store = target.store
    given = [options.id, options.key, options.request]
    if sum(each is not None for each in given) != 1:
        raise UsageError("name one operation: its ID, or --key or --request with --tenant")
    if "" in given:
        # An empty filter fits every operation. A script whose variable is unset names none.
        raise UsageError("name one operation: what names it is empty")
    if options.id is not None:
        of_key = {"tenant": options.tenant, "operation": options.operation}
        refuse_ignored("an ID", **of_key, principal=options.principal)
    if options.id is None:
        operation, key = options.operation, options.key
        if options.request is not None:
            operation, key = _requested(options.request, operation)
        if options.tenant is None or operation is None:
            raise UsageError("--key needs --tenant and --operation, and --request needs --tenant")
        record = finding.by_key(
            store,
            tenant=options.tenant,
            operation=operation,
            key=key,
            principal=options.principal,
        )
        return finding.found(record, f"this key of {options.tenant} for {operation}")
    if by_item and options.id.startswith(_ITEM) and "." not in options.id:
        # A companion's key begins with the key of its record.
        pk = "#".join(options.id.split("#")[:2])
        return finding.found(store.read(pk), f"the item {pk}")
    if "." not in options.id:
        record = finding.by_operation_id(store, options.id)
        if record is None and (options.scan or target.local):
            wanted = Wanted(operation_id=options.id)
            return finding.found(next(scanned(target, wanted), None), f"operation {options.id}")
        return finding.found(
            record,
            f"an open operation {options.id}; one that is settled, or failed and waits for nobody,"
            " is found by its key, by the reference in the function's log lines, or with --scan",
        )
    try:
        return finding.found(finding.by_reference(store, options.id), "this reference")
    except ValueError as error:
        raise UsageError(str(error)) from error


def refuse_ignored(beside: str, **options: object) -> None:
    """Return if none of these options is given, which would have no effect beside another one.

    A person who narrows an action would otherwise act on more, or on another operation.

    Raises:
        UsageError: one of them is given.
    """
    given = [f"--{name}" for name, value in options.items() if value]
    if given:
        raise UsageError(
            f"{' and '.join(given)} would have no effect beside {beside}: leave it out"
        )


def _requested(file: str, operation: str | None) -> tuple[str, str]:
    """The operation and the key of a request: an event of Lambda as JSON, or its text."""
    from oncekey.errors import OncekeyError
    from oncekey.http.event import read_request
    from oncekey.http.key import HEADER, idempotency_key

    # Only the head of the request is looked at. Its body may be binary.
    data = sys.stdin.buffer.read() if file == "-" else _read(file)
    text = data.decode("utf-8", "surrogateescape")
    try:
        if text.lstrip().startswith("{"):
            request = read_request(json.loads(text))
            method, path, lines = request.method, request.path, request.header_lines(HEADER)
        else:
            first, *head = text.replace("\r\n", "\n").partition("\n\n")[0].splitlines()
            method, path, *_ = first.split()
            fields = [line.partition(":") for line in head]
            lines = [value.strip() for name, _, value in fields if name.lower() == HEADER]
        key = idempotency_key(lines, min_length=1)
    except (OncekeyError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UsageError(f"{file} is no HTTP request with an Idempotency-Key: {error}") from error
    return operation or f"{method.upper()} {path.partition('?')[0]}", key


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error


def census(records: Iterable[Record]) -> str:
    """A value that says which operations these are: their number, and a hash of them.

    The number alone would let others be acted on than those that a person has seen.
    """
    from oncekey.record.identity import digest
    from oncekey.record.references import reference_to

    names = sorted(f"{reference_to(each)}.{each.attempt}" for each in records)
    return f"{len(names)}-{digest(*names)[:8]}"


def check_census(expected: str, found: str) -> None:
    """Return if what was found is what a person has seen.

    Raises:
        CommandError: it is not.
    """
    if expected != found:
        raise CommandError(
            "these are not the operations of the dry run any more, and nothing was changed: make"
            " another one, without --expect"
        )


def add_reason(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that changes something."""
    parser.add_argument(
        "--reason", type=reason, required=True, metavar="TEXT", help="why, for the audit table"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
