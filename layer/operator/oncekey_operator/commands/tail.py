"""`oncekey tail`: what changes in the table of records, live."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from oncekey_operator.arguments import one_or_more, positive
from oncekey_operator.exits import Exit
from oncekey_operator.output import add_output, coloured, iso, plain, print_json
from oncekey_operator.targets import add_target, target_of

if TYPE_CHECKING:
    from oncekey_operator.records.tailing import Change, Tail
    from oncekey_operator.targets import Target

_INTERVAL_S = 2
# An interval of more than a day shows nothing live, and of more than some years cannot be waited.
_MOST_S = 86_400
_MOST = 500
_COLOURS = {"COMPLETED": "green", "UNKNOWN": "red", "FAILED_RETRYABLE": "yellow"}
_WHAT_IT_SEES = (
    "Shows records as they are every {interval} s; what happens between two looks is not seen, nor"
    " are replays and refusals, which write nothing."
)
_BY_THE_INDEX = " Of operations that are short, only those that run at a look are seen."


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command line of `oncekey tail`."""
    tail: argparse.ArgumentParser = commands.add_parser(
        "tail",
        help="show what changes in the table of records, live",
        description="Shows each record that begins, changes its state or ends, until Ctrl-C. On AWS"
        " it reads the index of open records and those that leave it. On the local runtime it reads"
        " the whole table.",
    )
    tail.add_argument(
        "--interval", type=_interval, default=_INTERVAL_S, metavar="S", help="look every S seconds"
    )
    tail.add_argument("--looks", type=one_or_more, metavar="N", help="end after N looks")
    tail.add_argument("--operation", metavar="NAME", help="only this operation")
    tail.add_argument("--tenant", metavar="NAME", help="only this tenant")
    add_output(tail)
    add_target(tail)
    return tail


def run(options: argparse.Namespace) -> int:
    """Show the changes until Ctrl-C."""
    import sys

    from oncekey.clock import SystemClock

    clock = SystemClock()
    target = target_of(options)
    tail = _tail(target)
    what = _WHAT_IT_SEES.format(interval=f"{options.interval:g}")
    print(what + ("" if target.local else _BY_THE_INDEX), file=sys.stderr, flush=True)
    looks = 0
    try:
        while True:
            for change in tail.look():
                record = change.after
                if options.operation in {None, record.operation} and options.tenant in {
                    None,
                    record.tenant,
                }:
                    _show(change, as_json=options.json)
            looks += 1
            if looks == options.looks:
                return Exit.DONE
            clock.pause(int(1000 * options.interval))
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


def _interval(text: str) -> float:
    interval_s = positive(text)
    if interval_s <= _MOST_S:
        return interval_s
    raise argparse.ArgumentTypeError(f"{text!r} is no interval: use {_MOST_S} seconds at most")


def _tail(target: Target) -> Tail:
    from oncekey_operator.records.tailing import Tail, all_records, open_records

    if target.local is not None:
        return Tail(partial(all_records, target.dynamodb, target.table), target.store.read)
    return Tail(partial(open_records, target.store, _MOST), target.store.read)


def _show(change: Change, *, as_json: bool) -> None:
    from oncekey.clock import SystemClock

    record, before = change.after, change.before
    values: dict[str, Any] = {
        "at": iso(SystemClock().now_ms()),
        "operation": record.operation,
        "tenant": record.tenant,
        "operation_id": record.operation_id,
        "attempt": record.attempt,
        "before": None if before is None else before.status.value,
        "status": record.status.value,
        "steps": [step.name for step in record.steps.finished],
        "reason": record.last_error,
    }
    if as_json:
        print_json(values)
        print(end="", flush=True)  # a program that reads a pipe sees it now, too
        return
    steps = f" after {', '.join(values['steps'])}" if values["steps"] else ""
    reason = f" ({record.last_error})" if record.last_error else ""
    state = coloured(record.status.value, _COLOURS.get(record.status.value, "bold"))
    was = "" if before is None or before.status is record.status else f"{before.status.value} → "
    which = f"{values['at']}  {record.operation}  {record.tenant}  {record.operation_id}"
    print(
        plain(f"{which}  attempt {record.attempt}  {was}") + state + plain(f"{steps}{reason}"),
        flush=True,
    )
