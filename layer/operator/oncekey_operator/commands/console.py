"""`oncekey console`: a local page that shows the operations, and acts on them if allowed."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from oncekey_operator.exits import CommandError, Exit, UsageError
from oncekey_operator.targets import add_target, target_arguments, target_of

if TYPE_CHECKING:
    import argparse

_PORT = 8099
_PORT_MAX = 65_535


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command line of `oncekey console`."""
    console: argparse.ArgumentParser = commands.add_parser(
        "console",
        help="show the operations on a local page",
        description="Serves a page on this machine that shows the operations, live, until Ctrl-C."
        " Open the address that it prints, which contains a token. It changes nothing unless"
        " --allow-changes is given.",
    )
    console.add_argument(
        "--port", type=int, default=_PORT, help=f"port ({_PORT}); 0 takes a free one"
    )
    console.add_argument(
        "--allow-changes",
        action="store_true",
        help="let the page settle, requeue, redrive, pause and resume",
    )
    console.add_argument("--reveal", action="store_true", help="show keys and stored answers, too")
    add_target(console)
    return console


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from oncekey.clock import SystemClock
    from oncekey_operator.console.console import Access, Console
    from oncekey_operator.console.server import ConsoleServer
    from oncekey_operator.console.target_desk import TargetDesk

    if not 0 <= options.port <= _PORT_MAX:
        raise UsageError(f"--port is a number from 0 to {_PORT_MAX}")
    clock = SystemClock()
    access = Access(token=clock.new_owner(), changes=options.allow_changes, reveals=options.reveal)
    desk = TargetDesk(target_of(options), target_arguments(options))
    console = Console(desk, access, clock=clock)
    try:
        server = ConsoleServer(console, options.port)
    except OSError as error:
        raise CommandError(
            f"cannot listen on port {options.port}: {error.strerror}; say --port N, or --port 0",
            Exit.USAGE,
        ) from error
    print(f"oncekey console: {server.url}#token={access.token}", flush=True)
    print("Ctrl-C stops it.", file=sys.stderr)
    with server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
    return Exit.DONE
