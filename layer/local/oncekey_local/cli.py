"""The `oncekey` command."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from oncekey_local import arguments
from oncekey_local.description import Service

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_SERVICE = "infra.service:SERVICE"
_USAGE_ERROR = 2
# What the extra `local` brings and the base installation does not. The store and the functions load
# theirs in processes of their own: asked for here, it is missed before anything runs.
_EXTRA = ("aiohttp", "awslambdaric", "flask", "jwt", "moto")


def main(given: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status.

    It is 2 for a wrong command line, or if the command's dependencies are missing.
    """
    try:
        options = _parser().parse_args(given)
        if missing := [name for name in _EXTRA if importlib.util.find_spec(name) is None]:
            print(
                f"oncekey: this command needs {', '.join(missing)}: install oncekey[local]",
                file=sys.stderr,
            )
            return _USAGE_ERROR
        status: int = options.run(options)
    except KeyboardInterrupt:
        return 130  # before there was anything to stop
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="oncekey", description="Run and examine a service whose requests take effect once."
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_dev(commands)
    _add_demo(commands)
    return parser


def _add_dev(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    dev = commands.add_parser(
        "dev",
        help="run the service on this machine",
        description="Runs the whole service on this machine until Ctrl-C, which leaves no process "
        "behind (exit status 0). Standard output has one line, once everything answers; all else "
        "is on standard error.",
    )
    dev.set_defaults(run=_dev)
    _add_ports(dev)
    _add_functions(dev)
    _add_pumps(dev)
    dev.add_argument(
        "--exit-with-stdin",
        action="store_true",
        help="end when standard input ends, as it does when whoever holds its other end is killed",
    )
    _add_token(dev)


def _add_ports(dev: argparse.ArgumentParser) -> None:
    for name, default, what in (
        ("--port", 8080, "port of the HTTP API (8080); 0 takes a free one"),
        ("--provider-port", 0, "port of the provider (a free one)"),
        ("--store-port", 0, "port of the store (a free one)"),
    ):
        dev.add_argument(name, type=arguments.port, default=default, metavar="PORT", help=what)


def _add_functions(dev: argparse.ArgumentParser) -> None:
    dev.add_argument(
        "--service",
        default=DEFAULT_SERVICE,
        metavar="MODULE:NAME",
        help=f"the description ({DEFAULT_SERVICE})",
    )
    dev.add_argument(
        "--sandboxes",
        type=arguments.count,
        default=8,
        metavar="N",
        help="processes of each function at the most (8)",
    )
    dev.add_argument(
        "--timeout-s",
        type=arguments.seconds,
        metavar="S",
        help="timeout of every function (each its own)",
    )
    dev.add_argument(
        "--env",
        type=arguments.setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable for every function; may be repeated",
    )
    events = "whether the provider sends its events, or holds them for now (send)"
    dev.add_argument("--webhooks", choices=("send", "hold"), default="send", help=events)


def _add_pumps(dev: argparse.ArgumentParser) -> None:
    for name, type_, default, what in (
        ("--window-s", arguments.window, None, "batching window of every trigger (each its own)"),
        (
            "--visibility-timeout-s",
            arguments.visibility_timeout,
            None,
            "visibility timeout of every queue, however long its function runs (each its own)",
        ),
        (
            "--schedule-s",
            arguments.interval,
            None,
            "time between the calls of a function that runs every so many minutes (each its own)",
        ),
        ("--poll-s", arguments.interval, 0.25, "how often streams are looked at (0.25)"),
        (
            "--retry-s",
            arguments.interval,
            1.0,
            "wait before a failed batch or run, or a store that is down, is tried again (1)",
        ),
    ):
        dev.add_argument(name, type=type_, default=default, metavar="S", help=what)


def _add_token(dev: argparse.ArgumentParser) -> None:
    commands = dev.add_subparsers(title="commands", metavar="[token]")
    token = commands.add_parser(
        "token",
        help="print an access token for the local service",
        description="Prints an access token for the local service. It is signed with a secret that "
        "everybody knows, and worth nothing anywhere else.",
    )
    token.add_argument("--tenant", required=True, help="the claim tenant_id")
    token.add_argument("--subject", default="user_1", help="the claim sub (user_1)")
    token.add_argument(
        "--expires-in-s", type=int, default=3600, metavar="S", help="lifetime in seconds (3600)"
    )
    token.set_defaults(run=_token)


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="play retried, raced, killed and lost requests against the service",
        description="Runs the reference service on this machine and sends it requests that are "
        "retried, raced, killed and lost on the way; then counts the charges and refunds at "
        "the payment provider. Ends by itself in less than a minute. Exit status 0 if every "
        "promise was kept.",
    )
    demo.add_argument(
        "--unprotected",
        action="store_true",
        help="play the same against the service without its protection, which breaks the promises",
    )
    demo.set_defaults(run=_demo)


def _dev(options: argparse.Namespace) -> int:
    from oncekey_local import dev  # noqa: PLC0415 - `--help` works without the extra

    try:
        service = load_service(options.service)
    except ValueError as error:
        print(f"oncekey dev: {error}", file=sys.stderr)
        return _USAGE_ERROR
    settings = dev.Options(
        port=options.port,
        store_port=options.store_port,
        provider_port=options.provider_port,
        sandboxes=options.sandboxes,
        timeout_s=options.timeout_s,
        environment=dict(options.env),
        holds_webhooks=options.webhooks == "hold",
        pumps=dev.PumpSettings(
            poll_s=options.poll_s,
            retry_s=options.retry_s,
            window_s=options.window_s,
            visibility_timeout_s=options.visibility_timeout_s,
            schedule_s=options.schedule_s,
        ),
    )
    return asyncio.run(dev.run(service, settings, exit_with_stdin=options.exit_with_stdin))


def _token(options: argparse.Namespace) -> int:
    from oncekey_local.front import tokens  # noqa: PLC0415 - as above

    print(
        tokens.issue(
            tenant=options.tenant, subject=options.subject, expires_in_s=options.expires_in_s
        )
    )
    return 0


def _demo(options: argparse.Namespace) -> int:
    from oncekey_local import demo  # noqa: PLC0415 - as above

    return demo.run(protected=not options.unprotected)


def load_service(reference: str) -> Service:
    """The description that `module:attribute` names, found from the working directory.

    Raises `ValueError` that says what is wrong with the reference. A module that fails on import
    shows its traceback.
    """
    module_name, colon, attribute = reference.partition(":")
    if not (module_name and colon and attribute.isidentifier()):
        raise ValueError(f"--service {reference!r} must look like {DEFAULT_SERVICE}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"--service {reference}: {error}; run from the root of the project"
        ) from error
    except Exception as error:
        traceback.print_exc()
        raise ValueError(f"--service {reference}: its module fails on import, see above") from error
    service = getattr(module, attribute, None)
    if isinstance(service, Service):
        return service
    what = "nothing" if service is None else f"a {type(service).__name__}"
    raise ValueError(
        f"--service {reference} names {what}: it must name an oncekey_local.description.Service"
    )


if __name__ == "__main__":
    sys.exit(main())
