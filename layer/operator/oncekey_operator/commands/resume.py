"""`oncekey resume`: end a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey_operator.commands.pausing import add_paused, paused_by, words
from oncekey_operator.exits import CommandError, Exit, UsageError
from oncekey_operator.output import add_output, confirm, print_json
from oncekey_operator.targets import add_target, target_of

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command line of `oncekey resume`."""
    resume: argparse.ArgumentParser = commands.add_parser(
        "resume",
        help="end a pause",
        description="Ends a pause that `oncekey pause` has made. Each pause ends by itself: an"
        " operation stays paused while its tenant is.",
    )
    add_paused(resume)
    add_output(resume)
    add_target(resume)
    return resume


def run(options: argparse.Namespace) -> int:
    """End the pause."""
    from oncekey_operator.actions.acting import acting_on
    from oncekey_operator.actions.pausing import resume

    target, named = target_of(options), paused_by(options)
    if named is None:
        raise UsageError("say what to resume: an operation's name, --tenant NAME or --all")
    what = words(*named)
    question = f"New work of {what} begins again, in {target}."
    if not confirm(question, expected="yes", assumed=options.yes):
        raise CommandError("nothing was resumed")
    former = resume(acting_on(target, why=options.reason), *named)
    if former is None:
        raise CommandError(f"{what} is not paused: `oncekey pause` lists what is")
    if options.json:
        print_json({"scope": former.scope, "name": former.name, "was_paused": True})
    else:
        print(f"resumed: {what}")
    return Exit.DONE
