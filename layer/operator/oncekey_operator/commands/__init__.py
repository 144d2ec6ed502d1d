"""The operator's commands of the `oncekey` program, one module each.

A module has `add(commands)`, which returns its parser, and `run(options)`, which returns the exit
status. It imports what it runs with in `run`, so that `oncekey --help` is fast.
"""

from __future__ import annotations

import logging
import sys
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING

from oncekey_operator.advice import advice_about
from oncekey_operator.exits import CommandError, Exit
from oncekey_operator.output import print_to_nobody

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

# In the order of `oncekey --help`.
COMMANDS = (
    "show",
    "list",
    "tail",
    "resolve",
    "bust",
    "erase",
    "pause",
    "resume",
    "outbox",
    "redrive",
    "move",
    "console",
    "audit",
    "plan",
    "doctor",
)


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add every command of an operator to the program."""
    for name in COMMANDS:
        module = import_module(f"{__name__}.{name}")
        parser = module.add(commands)
        parser.set_defaults(run=partial(run, name, module.run), needs=())


def run(
    name: str, command: Callable[[argparse.Namespace], int], options: argparse.Namespace
) -> int:
    """Run a command. Its errors become a sentence on standard error and an exit status.

    What the encoding of standard output does not have is written as an escape.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    from oncekey.errors import StoreError

    # The command says what happened. The layer's log lines are for functions.
    logging.getLogger("oncekey").addHandler(logging.NullHandler())
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    status: int = Exit.DONE
    try:
        status = command(options)
        # Here, and not at the exit of Python, which says so and ends with a status of its own.
        print(end="", flush=True)
    except CommandError as error:
        print(f"oncekey {name}: {error}", file=sys.stderr)
        return error.status
    except (StoreError, BotoCoreError, ClientError) as error:
        if advice := advice_about(error):
            print(f"oncekey {name}: {error}: {advice}", file=sys.stderr)
            return Exit.USAGE
        print(f"oncekey {name}: the store did not answer: {error}", file=sys.stderr)
        return Exit.NO_ANSWER
    except BrokenPipeError:
        # The reader has ended (`oncekey list | head`). Nothing more is written at the exit, either.
        print_to_nobody()
    return status
