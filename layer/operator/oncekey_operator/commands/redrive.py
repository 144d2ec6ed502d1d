"""`oncekey redrive`: send again what was set aside, or what became a dead letter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey_operator.exits import CommandError, Exit, UsageError
from oncekey_operator.output import Progress, add_output, confirm, print_json, print_table, relative
from oncekey_operator.targets import add_target, target_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from oncekey_operator.messages.outbox import OutboxItem
    from oncekey_operator.targets import Target

_MOST = 100


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command line of `oncekey redrive`."""
    redrive: argparse.ArgumentParser = commands.add_parser(
        "redrive",
        help="send messages again: those that were set aside, or dead letters",
        description="Sends messages again, once their cause is removed. A message that fails again"
        " is set aside, or becomes a dead letter, again.",
    )
    what = redrive.add_mutually_exclusive_group(required=True)
    what.add_argument("id", nargs="?", metavar="ID", help="a message of the outbox, set aside")
    what.add_argument("--set-aside", action="store_true", help="all messages that are set aside")
    what.add_argument(
        "--dead-letters", action="store_true", help="the dead letters of the worker's queue"
    )
    redrive.add_argument(
        "--limit", type=int, default=_MOST, metavar="N", help="at most N (%(default)s)"
    )
    redrive.add_argument("--dry-run", action="store_true", help="only show what would be sent")
    redrive.add_argument("--reason", metavar="TEXT", help="why, for the audit table")
    redrive.add_argument("--yes", action="store_true", help="do not ask")
    add_output(redrive)
    add_target(redrive)
    return redrive


def run(options: argparse.Namespace) -> int:
    """Send the messages again."""
    if not options.dry_run and not options.reason:
        raise UsageError("say --reason TEXT, which the audit table keeps, or --dry-run")
    target = target_of(options)
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
    question = f"{len(items)} messages are sent again, in {target}."
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
    from oncekey_operator.messages.queues import dead_letters_of

    if not target.queue_url:
        raise UsageError("no queue is named: say --queue-url URL, the queue of the worker")
    queue = dead_letters_of(target.client("sqs"), target.queue_url)
    if options.dry_run:
        letters = [each for batch in queue.receive(options.limit) for each in batch]
        for start in range(0, len(letters), 10):
            queue.show_again(letters[start : start + 10])
        if not options.json:
            _table(
                ("SENT", "SQS MESSAGE ID", "TOPIC", "OPERATION", "ID"),
                (
                    (each.sent_at_ms, each.message_id, each.topic, each.operation, each.id)
                    for each in letters
                ),
            )
        return _said(options, 0, len(letters))
    count = min(queue.count(), options.limit)
    question = f"About {count} dead letters go back to {queue.source_url.rpartition('/')[2]}."
    if not confirm(question, expected="yes", assumed=options.yes):
        raise CommandError("nothing was moved")
    with Progress("redrive", count) as progress:
        done = move_back(acting_on(target, why=options.reason), queue, options.limit, progress.show)
    return _said(options, done, done)


def _said(options: argparse.Namespace, done: int, found: int) -> int:
    if options.json:
        print_json({"found": found, "redriven": done, "dry_run": options.dry_run})
    elif options.dry_run:
        print(f"{found} would be sent again")
    else:
        print(f"{done} are sent again")
    return Exit.DONE


def _show(items: list[OutboxItem]) -> None:
    _table(
        ("WRITTEN", "TOPIC", "OPERATION", "ID"),
        ((each.created_at_ms, each.topic, each.operation, each.id) for each in items),
    )


def _table(headers: Sequence[str], rows: Iterable[tuple[int, *tuple[str, ...]]]) -> None:
    from oncekey.clock import SystemClock

    now_ms = SystemClock().now_ms()
    found = [(relative(at_ms, now_ms), *(text or "-" for text in texts)) for at_ms, *texts in rows]
    if found:
        print_table(headers, found)
