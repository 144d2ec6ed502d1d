"""`python -m oncekey_local.provider`: the provider as a process, on the loopback interface only."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from typing import TYPE_CHECKING

from aiohttp import web

from oncekey_local.arguments import port
from oncekey_local.functions.environment import WEBHOOK_SECRET
from oncekey_local.processes import LOOPBACK
from oncekey_local.provider import READY
from oncekey_local.provider.server import create_application
from oncekey_local.provider.webhooks import Target
from oncekey_local.server_log import keep_requests_out_of_the_log
from oncekey_local.stdin_end import at_end_of_stdin

if TYPE_CHECKING:
    from collections.abc import Sequence

# Held calls would otherwise keep a stopped provider alive.
SHUTDOWN_TIMEOUT_S = 0.1


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM, SIGINT or, if requested, the end of standard input.

    Returns the exit status.
    """
    options = _parser().parse_args(arguments)
    target = None
    if options.webhook_url:
        target = Target(
            url=options.webhook_url,
            secret=options.webhook_secret,
            is_held=options.hold_webhooks,
        )
    return asyncio.run(_serve(options.port, target, exit_with_stdin=options.exit_with_stdin))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m oncekey_local.provider",
        description="A local payment provider: the part of Stripe's API that a service uses.",
    )
    parser.add_argument(
        "--port", type=port, required=True, help="the port to listen on; 0 picks a free one"
    )
    parser.add_argument(
        "--exit-with-stdin", action="store_true", help="end when standard input ends"
    )
    parser.add_argument("--webhook-url", help="where events are sent to; none are without it")
    parser.add_argument(
        "--webhook-secret", default=WEBHOOK_SECRET, help="what events are signed with"
    )
    parser.add_argument(
        "--hold-webhooks", action="store_true", help="hold events until /_webhooks says otherwise"
    )
    return parser


async def _serve(port: int, target: Target | None, *, exit_with_stdin: bool) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    keep_requests_out_of_the_log()
    # A call that has arrived takes effect even if its caller has disconnected.
    runner = web.AppRunner(
        create_application(target),
        access_log=None,
        handler_cancellation=False,
        shutdown_timeout=SHUTDOWN_TIMEOUT_S,
    )
    await runner.setup()
    try:
        # No port reuse: a second provider on this port must fail and not share the calls.
        await web.TCPSite(runner, LOOPBACK, port, reuse_address=True, reuse_port=False).start()
    except OSError as error:
        print(
            f"oncekey provider: cannot listen on {LOOPBACK}:{port} ({error.strerror or error}). "
            "Stop what uses the port, or choose another with --port (0 picks a free one).",
            file=sys.stderr,
        )
        await runner.cleanup()
        return 1
    if exit_with_stdin:
        at_end_of_stdin(loop, stop.set)
    print(f"{READY}http://{LOOPBACK}:{runner.addresses[0][1]}", flush=True)
    await stop.wait()
    await runner.cleanup()
    return 0


if __name__ == "__main__":
    sys.exit(main())
