"""`oncekey pause`: stop new work of an operation, of a tenant or of everything; list the pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey_operator.commands.pausing import add_paused, paused_by, words
from oncekey_operator.exits import CommandError, Exit
from oncekey_operator.output import add_output, confirm, iso, print_json, print_table, when
from oncekey_operator.targets import add_target, target_of

if TYPE_CHECKING:
    import argparse

    from oncekey.record.pause import Pause
    from oncekey_operator.targets import Target


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command line of `oncekey pause`."""
    pause: argparse.ArgumentParser = commands.add_parser(
        "pause",
        help="stop new work of an operation or a tenant, or list what is paused",
        description="Stops new work: its clients get 503 and the reason, and its messages wait."
        " Answers are still given. Without a name, lists what is paused.",
    )
    add_paused(pause)
    add_output(pause)
    add_target(pause)
    return pause


def run(options: argparse.Namespace) -> int:
    """Pause it, or list what is paused."""
    from oncekey.clock import SystemClock
    from oncekey_operator.actions.acting import acting_on
    from oncekey_operator.actions.pausing import pause

    target, named = target_of(options), paused_by(options)
    if named is None:
        _list(target, SystemClock().now_ms(), as_json=options.json)
        return Exit.DONE
    what = words(*named)
    question = f"New work of {what} is refused from now on, in {target}."
    if not confirm(question, expected="yes", assumed=options.yes):
        raise CommandError("nothing was paused")
    former = pause(acting_on(target, why=options.reason), *named)
    if options.json:
        print_json({"scope": named[0], "name": named[1], "was_paused": former is not None})
    else:
        again = "" if former is None else ", as it was before; the new reason is on record"
        print(f"paused: {what}{again}")
        print("Functions see it within ONCEKEY_PAUSE_CHECK_S (10 s with the constructs).")
        print("Nothing checks that there is such a name: `oncekey pause` lists what is paused.")
    return Exit.DONE


def _list(target: Target, now_ms: int, *, as_json: bool) -> None:
    pauses = sorted(target.store.pauses(), key=lambda each: each.since_ms)
    if as_json:
        print_json([_values(each) for each in pauses])
        return
    if not pauses:
        print("nothing is paused")
        return
    print_table(
        ("PAUSED", "SINCE", "BY", "REASON"),
        (
            (words(each.scope, each.name), when(each.since_ms, now_ms), each.by, each.reason)
            for each in pauses
        ),
    )


def _values(pause: Pause) -> dict[str, str]:
    return {
        "scope": pause.scope,
        "name": pause.name,
        "since": iso(pause.since_ms),
        "by": pause.by,
        "reason": pause.reason,
    }
