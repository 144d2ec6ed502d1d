"""`oncekey show`: one operation, and what happens next with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from oncekey_operator.commands.naming import add_operation, operation_of
from oncekey_operator.output import add_output, print_json, print_pairs, when
from oncekey_operator.targets import add_target, target_arguments, target_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from oncekey.record.record import Record
    from oncekey_operator.records.outlook import Outlook

_COLOURS = {"completed": "green", "unknown": "red", "failed_retryable": "yellow"}


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command line of `oncekey show`."""
    show: argparse.ArgumentParser = commands.add_parser(
        "show",
        help="show one operation and what happens next with it",
        description="Shows one operation: its state, times, attempts and steps, what happens next,"
        " and which command settles it.",
    )
    add_operation(show)
    show.add_argument(
        "--reveal", action="store_true", help="print the client's key and the stored answer, too"
    )
    add_output(show)
    add_target(show)
    return show


def run(options: argparse.Namespace) -> int:
    """Show the operation."""
    from oncekey.clock import SystemClock
    from oncekey_operator.records.outlook import outlook
    from oncekey_operator.records.views import answer_of, state, view

    target = target_of(options)
    store, record = target.store, operation_of(options, target, by_item=True)
    now_ms = SystemClock().now_ms()
    words, answer = answer_of(record, store)
    next_, where = outlook(record, now_ms), target_arguments(options)
    if options.json:
        shown = view(record, now_ms) | {
            "answer": words,
            "next": {
                "client": next_.client,
                "reconciler": next_.reconciler or None,
                "person": next_.person or None,
                "command": next_.command + where if next_.command else None,
                "ending": next_.ending + where if next_.ending else None,
            },
        }
        if options.reveal:
            shown |= {"key": record.key or None, "stored_answer": answer}
        print_json(shown)
        return 0
    pairs = list(_pairs(record, words, now_ms))
    if options.reveal:
        pairs.append(("key", record.key or "(not stored)"))
        pairs.append(("stored answer", json.dumps(answer, default=repr)))
    colours = {"state": _COLOURS.get(state(record, now_ms), "bold")}
    print_pairs(pairs, colours=colours)
    print()
    print_pairs(_next(record, next_, now_ms))
    # Each on one line, however long, so that it can be copied.
    if next_.command:
        print(f"\nTo settle it:\n  {next_.command}{where}")
    if next_.ending:
        print(f"\nTo end it, if it must not go on:\n  {next_.ending}{where}")
    return 0


def _pairs(record: Record, answer: str, now_ms: int) -> Iterator[tuple[str, str]]:
    from oncekey.record.references import reference_to
    from oncekey_operator.records.views import is_told, state

    yield "operation", record.operation
    yield "tenant", record.tenant
    yield "state", state(record, now_ms)
    yield "operation id", record.operation_id
    yield "reference", reference_to(record)
    yield "created", when(record.created_at_ms, now_ms)
    yield "attempt", f"{record.attempt} ({record.effects.value} effects)"
    if record.lease_until_ms is not None:
        word = "over since" if record.is_lease_over(now_ms) else "until"
        yield "lease", f"{word} {when(record.lease_until_ms, now_ms)}"
    if record.completed_at_ms is not None:
        yield "completed", when(record.completed_at_ms, now_ms)
    if record.expires_at_s is not None:
        yield "expires", when(record.expires_at_s * 1000, now_ms)
    for step in record.steps.finished:
        what = "committed" if step.is_commit else "finished"
        yield f"step {step.name}", f"{what} {when(step.at_ms, now_ms)}"
    if record.steps.started is not None:
        started = record.steps.started
        yield f"step {started.name}", f"started {when(started.at_ms, now_ms)}, and in doubt"
    if record.last_error is not None:
        yield "last error", record.last_error
    if record.reconcile_attempts:
        yield "reconciler", f"{record.reconcile_attempts} turns"
    if record.escalated_at_ms is not None:
        yield (
            "escalated",
            when(record.escalated_at_ms, now_ms)
            if is_told(record)
            else "not yet: the reconciler escalates it in its next run",
        )
    yield "answer", answer


def _next(record: Record, next_: Outlook, now_ms: int) -> Iterator[tuple[str, str]]:
    yield "next request", next_.client.removeprefix("the next request with the key ")
    if next_.reconciler and record.due is not None:
        at = "now" if record.due.at_ms <= now_ms else when(record.due.at_ms, now_ms)
        yield "reconciler", f"{next_.reconciler}, {at}"
    if next_.person:
        yield "a person", next_.person
