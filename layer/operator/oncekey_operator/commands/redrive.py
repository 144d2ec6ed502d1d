"""`oncekey redrive`: send again what was set aside, or what became a dead letter; or discard it."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

from oncekey_operator.arguments import one_or_more, reason
from oncekey_operator.exits import CommandError, Exit, UsageError
from oncekey_operator.output import (
    Progress,
    add_output,
    confirm,
    counted,
    plain,
    print_json,
    print_pairs,
    print_table,
    relative,
)
from oncekey_operator.targets import add_target, target_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from oncekey_operator.messages.outbox import OutboxItem
    from oncekey_operator.messages.queues import DeadLetter, DeadLetterQueue
    from oncekey_operator.targets import Target

_MOST = 100
# Of a message that is to be discarded.
_SHOWN = ("message_id", "id", "topic", "operation", "operation_id")
_FIRST_OF_A_GROUP = (
    "SQS shows only the first messages of a group of a FIFO queue, ten at most, until these are"
    " redriven or discarded"
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command line of `oncekey redrive`."""
    redrive: argparse.ArgumentParser = commands.add_parser(
        "redrive",
        help="send messages again, those set aside or dead letters; or discard a dead letter",
        description="Sends messages again, once their cause is removed. A message that fails again"
        " is set aside, or becomes a dead letter, again. One that can never succeed is discarded.",
    )
    what = redrive.add_mutually_exclusive_group(required=True)
    what.add_argument("id", nargs="?", metavar="ID", help="a message of the outbox, set aside")
    what.add_argument("--set-aside", action="store_true", help="all messages that are set aside")
    what.add_argument(
        "--dead-letters", action="store_true", help="the dead letters of the worker's queue"
    )
    what.add_argument(
        "--discard",
        metavar="ID",
        help="show and delete this message: a dead letter, by its SQS message id or its own, or one"
        " that is set aside. What it asks for is not done",
    )
    redrive.add_argument(
        "--limit", type=one_or_more, default=_MOST, metavar="N", help="at most N (%(default)s)"
    )
    redrive.add_argument("--dry-run", action="store_true", help="only show the messages")
    redrive.add_argument(
        "--reveal", action="store_true", help="show the body of the dead letter to discard, too"
    )
    redrive.add_argument("--reason", type=reason, metavar="TEXT", help="why, for the audit table")
    redrive.add_argument("--yes", action="store_true", help="do not ask")
    add_output(redrive)
    add_target(redrive)
    return redrive


def run(options: argparse.Namespace) -> int:
    """Send the messages again."""
    if not options.dry_run and not options.reason:
        raise UsageError("say --reason TEXT, which the audit table keeps, or --dry-run")
    if options.discard == "":
        # Each dead letter that is no message of ours has an empty id.
        raise UsageError("--discard takes the id of one message, and it is empty")
    target = target_of(options)
    if options.discard is not None:
        return _discard(target, options)
    if options.dead_letters:
        return _dead_letters(target, options)
    return _set_aside(target, options)


def _set_aside(target: Target, options: argparse.Namespace) -> int:
    from oncekey.store.dynamodb.outbox import OutboxTable
    from oncekey_operator.actions.acting import acting_on
    from oncekey_operator.actions.redriving import requeue
    from oncekey_operator.messages.outbox import outbox_items

    if not target.outbox_table:
        raise UsageError("no outbox table is named: say --outbox-table NAME")
    found = list(outbox_items(target.dynamodb, target.outbox_table, set_aside_only=True))
    items = [each for each in found if options.id in {None, each.id}][: options.limit]
    if options.id is not None and not items:
        raise CommandError(f"no message {options.id} is set aside: `oncekey outbox` shows them")
    if not options.json:
        _show(items)
    if not items or options.dry_run:
        return _said(options, 0, len(items))
    question = f"Send again: {counted(len(items), 'message')}, in {target}."
    if not confirm(question, expected="yes", assumed=options.yes):
        raise CommandError("nothing was sent")
    acting = acting_on(target, why=options.reason)
    outbox = OutboxTable(target.outbox_table, client=target.dynamodb)
    done = 0
    with Progress("redrive", len(items)) as progress:
        for item in items:
            done += requeue(acting, outbox, item)
            progress.show(done)
    return _said(options, done, len(items))


def _dead_letters(target: Target, options: argparse.Namespace) -> int:
    from oncekey_operator.actions.acting import acting_on
    from oncekey_operator.actions.redriving import move_back

    queue = _queue(target)
    if options.dry_run:
        count = min(queue.count(), options.limit)
        letters = [each for batch in queue.receive(options.limit) for each in batch]
        queue.show_again(letters)
        if not options.json:
            _show_letters(letters)
        if queue.is_fifo and len(letters) < count:
            print(f"There are about {count}. {_FIRST_OF_A_GROUP}.", file=sys.stderr)
        return _said(options, 0, len(letters))
    count = min(queue.count(), options.limit)
    to = queue.source_url.rpartition("/")[2]
    question = f"About {counted(count, 'dead letter')} of {options.limit} at most go to {to}."
    if not confirm(question, expected="yes", assumed=options.yes):
        raise CommandError("nothing was moved")
    with Progress("redrive", count) as progress:
        acting = acting_on(target, why=options.reason)
        done, left = move_back(acting, queue, options.limit, progress.show)
    _said(options, done, done + left)
    if not left:
        return Exit.DONE
    raise CommandError(
        f"{to} has refused a dead letter: {left} are left where they were, and others were not"
        " tried. --discard what it never takes, or redrive them again"
    )


def _discard(target: Target, options: argparse.Namespace) -> int:
    from oncekey_operator.actions.acting import acting_on, storage_of
    from oncekey_operator.actions.redriving import discard_dead_letter, discard_set_aside

    item = _set_aside_item(target, options.discard)
    if item is not None:
        if not _may_discard(item, options):
            return Exit.DONE
        acting = acting_on(target, why=options.reason)
        if not discard_set_aside(acting, storage_of(target), target.outbox_table, item):
            raise CommandError("it is no longer set aside: look at it again")
        return _discarded(item, options)
    queue = _queue(target)
    letter = queue.find(options.discard, options.limit)
    if letter is None:
        raise CommandError(
            f"{options.discard} is not set aside, and none of the first {options.limit} dead"
            " letters: `oncekey outbox --set-aside` and `oncekey redrive --dead-letters --dry-run`"
            " show them" + (f". {_FIRST_OF_A_GROUP}" if queue.is_fifo else "")
        )
    is_discarded = False
    try:
        if _may_discard(letter, options):
            discard_dead_letter(acting_on(target, why=options.reason), queue, letter)
            is_discarded = True
    finally:
        if not is_discarded:
            queue.show_again([letter])
    return _discarded(letter, options) if is_discarded else Exit.DONE


def _set_aside_item(target: Target, message_id: str) -> OutboxItem | None:
    from oncekey_operator.messages.outbox import outbox_items

    if not target.outbox_table:
        return None
    found = outbox_items(target.dynamodb, target.outbox_table, set_aside_only=True)
    return next((each for each in found if each.id == message_id), None)


def _may_discard(message: OutboxItem | DeadLetter, options: argparse.Namespace) -> bool:
    """Show the message, and ask. False after a dry run."""
    if options.json and options.dry_run:
        print_json(_shown(message) | {"discarded": False})
    elif not options.json:
        shown = _shown(message)
        if options.reveal:
            shown["body"] = getattr(message, "body", "(in the outbox table)")
        print_pairs((name.replace("_", " "), text or "-") for name, text in shown.items())
    question = "What this message asks for is not done, and nobody can bring it back."
    if not options.dry_run and not confirm(question, expected="discard", assumed=options.yes):
        raise CommandError("nothing was discarded")
    return not options.dry_run


def _shown(message: OutboxItem | DeadLetter) -> dict[str, Any]:
    return {name: getattr(message, name, "") for name in _SHOWN}


def _discarded(message: OutboxItem | DeadLetter, options: argparse.Namespace) -> int:
    if options.json:
        print_json(_shown(message) | {"discarded": True})
        return Exit.DONE
    print("discarded")
    if message.operation_id:
        # A command to copy, with a text from a queue in it.
        name = shlex.quote(plain(message.operation_id))
        print(
            f"The operation that sent it is as it was: `oncekey show {name}` says what happens next"
            " with it, and how to end it."
        )
    return Exit.DONE


def _queue(target: Target) -> DeadLetterQueue:
    from oncekey_operator.messages.queues import dead_letters_of

    if not target.queue_url:
        raise UsageError("no queue is named: say --queue-url URL, the queue of the worker")
    return dead_letters_of(target.client("sqs"), target.queue_url)


def _said(options: argparse.Namespace, done: int, found: int) -> int:
    if options.json:
        print_json({"found": found, "redriven": done, "dry_run": options.dry_run})
    elif options.dry_run:
        print(f"{counted(found, 'message')} would be sent again")
    else:
        print(f"{counted(done, 'message')} sent again")
    return Exit.DONE


def _show(items: list[OutboxItem]) -> None:
    _table(
        ("WRITTEN", "TOPIC", "OPERATION", "ID"),
        ((each.created_at_ms, each.topic, each.operation, each.id) for each in items),
    )


def _show_letters(letters: Sequence[DeadLetter]) -> None:
    _table(
        ("SENT", "SQS MESSAGE ID", "TOPIC", "OPERATION", "ID"),
        (
            (each.sent_at_ms, each.message_id, each.topic, each.operation, each.id)
            for each in letters
        ),
    )


def _table(headers: Sequence[str], rows: Iterable[tuple[int, *tuple[str, ...]]]) -> None:
    from oncekey.clock import SystemClock

    now_ms = SystemClock().now_ms()
    found = [(relative(at_ms, now_ms), *(text or "-" for text in texts)) for at_ms, *texts in rows]
    if found:
        print_table(headers, found)
