"""`oncekey erase`: erase the data of one operation or of a tenant."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

from oncekey_operator.commands.list import HEADERS, OMITTED, row, scanned, tell_left_out
from oncekey_operator.commands.naming import (
    add_operation,
    add_reason,
    census,
    check_census,
    operation_of,
    refuse_ignored,
)
from oncekey_operator.exits import CommandError, Exit, UsageError
from oncekey_operator.output import Progress, confirm, print_table
from oncekey_operator.targets import add_target, target_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from oncekey.record.record import Record
    from oncekey.store.dynamodb.codec import RecordUnreadable
    from oncekey_operator.actions.messages import Unsent
    from oncekey_operator.targets import Target


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command line of `oncekey erase`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "erase",
        help="erase the data of an operation or a tenant",
        description="Erases keys, principals, requests and answers of settled operations, also in"
        " the bucket. A completed operation leaves a tombstone until it expires, so that its key"
        " does not run a second time: operation, times, and hashes of key and request. Open"
        " operations and unsent messages stay, and are counted. Without --key, ID or --request, it"
        " is about all operations of --tenant, by a scan of the table.",
    )
    add_operation(parser)
    parser.add_argument(
        "--expect",
        metavar="CENSUS",
        help="erase a tenant's, if they are those of the dry run, which prints this value",
    )
    parser.add_argument(
        "--even-if",
        choices=("unsent",),
        default="",
        help="also the messages in the outbox: what they ask for never happens",
    )
    add_reason(parser)
    add_target(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    """Erase the data."""
    from oncekey_operator.actions.acting import storage_of

    target = target_of(options)
    if options.even_if and not target.outbox_table:
        raise UsageError("--even-if unsent deletes messages of the outbox: say --outbox-table NAME")
    is_one = any(each is not None for each in (options.id, options.key, options.request))
    left_out: list[str] = []
    if is_one:
        refuse_ignored("one operation", expect=options.expect)
        records = [operation_of(options, target)]
    elif not options.tenant:
        raise UsageError("name one operation, or --tenant for all of a tenant")
    else:
        narrower = {"operation": options.operation, "principal": options.principal}
        refuse_ignored("--tenant, which is about all of a tenant", **narrower)
        records = _of_tenant(target, options.tenant, left_out)
    messages = _unsent(options, target, records, is_one=is_one)
    if options.even_if:
        messages.check_reaches(storage_of(target))
    dropped = f", and {len(messages)} unsent messages are deleted" if options.even_if else ""
    if not is_one:
        if options.expect is None:
            return _dry_run(records, dropped)
        check_census(options.expect, census(records))
    question = f"The data of {len(records)} operations are erased{dropped}."
    if not confirm(question, expected="erase", assumed=options.yes):
        return Exit.REFUSED
    status = _erase(options, target, records, messages)
    if left_out:
        print(
            f"left: {len(left_out)} items that cannot be read, and may be the tenant's, see above"
        )
        return Exit.REFUSED
    return status


def _unsent(
    options: argparse.Namespace, target: Target, records: Sequence[Record], *, is_one: bool
) -> Unsent:
    from oncekey_operator.actions.acting import storage_of
    from oncekey_operator.actions.messages import Unsent, unsent

    if not target.outbox_table:
        return Unsent(items=())
    of = {"operation_id": records[0].operation_id} if is_one else {"tenant": options.tenant}
    return unsent(storage_of(target), target.outbox_table, **of)


def _of_tenant(target: Target, tenant: str, left_out: list[str]) -> list[Record]:
    from oncekey_operator.records.listing import Wanted

    def note(pk: str, error: RecordUnreadable) -> None:
        tell_left_out(pk, error)
        left_out.append(pk)

    return list(scanned(target, Wanted(tenant=tenant), note))


def _dry_run(records: Sequence[Record], dropped: str) -> int:
    from oncekey.clock import SystemClock

    now_ms = SystemClock().now_ms()
    print_table(HEADERS, (row(each, now_ms) for each in records), omitted=OMITTED)
    print(
        f"Dry run: the data of {len(records)} operations are erased{dropped} if you say --expect"
        f" {census(records)}.",
        file=sys.stderr,
    )
    return Exit.DONE


def _erase(
    options: argparse.Namespace, target: Target, records: Sequence[Record], messages: Unsent
) -> int:
    from oncekey_operator.actions.acting import acting_on, storage_of
    from oncekey_operator.actions.messages import drop
    from oncekey_operator.actions.removal import erase

    acting, storage = acting_on(target, why=options.reason), storage_of(target)
    left: Counter[str] = Counter()
    refusals: list[str] = []
    with Progress("erasing", len(records)) as bar:
        for done, record in enumerate(records, 1):
            try:
                left[erase(acting, storage, record)] += 1
            except CommandError as error:
                refusals.append(f"{record.operation_id}: {error}")
            bar.show(done)
    if options.even_if:
        count = drop(acting, storage, target.outbox_table, messages)
        print(f"unsent messages deleted: {count} of {len(messages)}")
    print(f"erased: {sum(left.values())}; tombstones until they expire: {left['tombstone']}")
    for refusal in refusals:
        print(f"left as it is: {refusal}")
    if messages and not options.even_if:
        print(
            f"left: {len(messages)} unsent messages in the outbox; they go once they are sent, or"
            " with --even-if unsent, and are then never sent"
        )
    if options.table is not None and not target.outbox_table:
        # The outputs of a stack, and `oncekey dev`, say whether there is one.
        print("not looked at: the outbox, which --outbox-table names if there is one")
    is_whole = not refusals and (not messages or bool(options.even_if))
    return Exit.DONE if is_whole else Exit.REFUSED
