"""`oncekey outbox`: the messages that wait for the queue, and those that are set aside."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from oncekey_operator.arguments import one_or_more
from oncekey_operator.exits import Exit, UsageError
from oncekey_operator.output import add_output, iso, print_json, print_table, relative
from oncekey_operator.targets import add_target, target_of

if TYPE_CHECKING:
    import argparse

    from oncekey_operator.messages.outbox import OutboxItem

_MOST_SHOWN = 100


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command line of `oncekey outbox`."""
    outbox: argparse.ArgumentParser = commands.add_parser(
        "outbox",
        help="show the messages that wait for the queue, and those that are set aside",
        description="Shows the outbox table, the oldest message first. A message waits for seconds;"
        " one that is older than the reconciler's grace (a minute) shows that neither relay nor"
        " sweep sends. Exit status 1 if one of those that it reads is set aside. Payloads are not"
        " shown.",
    )
    outbox.add_argument("--set-aside", action="store_true", help="only those that are set aside")
    outbox.add_argument(
        "--limit",
        type=one_or_more,
        default=_MOST_SHOWN,
        metavar="N",
        help="read at most N (%(default)s)",
    )
    add_output(outbox)
    add_target(outbox)
    return outbox


def run(options: argparse.Namespace) -> int:
    """Show the messages."""
    from oncekey.clock import SystemClock
    from oncekey_operator.messages.outbox import outbox_items

    target = target_of(options)
    if not target.outbox_table:
        raise UsageError("no outbox table is named: say --outbox-table NAME")
    found = outbox_items(target.dynamodb, target.outbox_table, set_aside_only=options.set_aside)
    items = sorted(islice(found, options.limit), key=lambda each: each.created_at_ms)
    is_whole = next(found, None) is None
    set_aside = sum(each.set_aside_at_ms is not None for each in items)
    now_ms = SystemClock().now_ms()
    if options.json:
        print_json({"messages": [_values(each) for each in items], "is_whole": is_whole})
    else:
        _print(items, now_ms)
        more = "" if is_whole else f"; more than {len(items)} are there: say --limit"
        print(f"{len(items) - set_aside} waiting, {set_aside} set aside{more}")
    return Exit.REFUSED if set_aside else Exit.DONE


def _print(items: list[OutboxItem], now_ms: int) -> None:
    if not items:
        return
    headers = ("ID", "TOPIC", "OPERATION", "WRITTEN", "REFUSED", "STATE")
    print_table(
        headers,
        (
            (
                each.id,
                each.topic or "no message",
                each.operation,
                relative(each.created_at_ms, now_ms),
                f"{each.tries} times" if each.tries else "",
                "waits" if each.set_aside_at_ms is None else f"set aside: {each.reason}",
            )
            for each in items
        ),
    )


def _values(item: OutboxItem) -> dict[str, Any]:
    times = ("created_at", "set_aside_at", "escalated_at")
    found = {name.removesuffix("_ms"): value for name, value in asdict(item).items()}
    del found["has_object"]
    return found | {name: iso(found[name]) for name in times if found[name] is not None}
