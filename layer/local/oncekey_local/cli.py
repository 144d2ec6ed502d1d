"""The `oncekey` command."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import re
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from oncekey_local.description import Service

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_SERVICE = "infra.service:SERVICE"
_USAGE_ERROR = 2
_SETTING = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)", re.DOTALL)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status: 2 for one that makes no sense."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given[:1] == ["demo"]:  # it has options of its own
            return _demo(given[1:])
        options = _parser().parse_args(given)
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
    commands.add_parser(
        "demo", help="play retried, raced, killed and lost requests against the service"
    )
    return parser


def _add_dev(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    dev = commands.add_parser(
        "dev",
        help="run the service on this machine",
        description="Runs the whole service on this machine until Ctrl-C, which leaves no process "
        "behind (exit status 0). Standard output has one line, once everything answers; all else "
        "is on standard error.",
    )
    dev.add_argument(
        "--port", type=_port, default=8080, help="port of the HTTP API (8080); 0 takes a free one"
    )
    dev.add_argument(
        "--provider-port",
        type=_port,
        default=0,
        metavar="PORT",
        help="port of the provider (a free one)",
    )
    dev.add_argument(
        "--store-port", type=_port, default=0, metavar="PORT", help="port of the store (a free one)"
    )
    dev.add_argument(
        "--service",
        default=DEFAULT_SERVICE,
        metavar="MODULE:NAME",
        help=f"the description ({DEFAULT_SERVICE})",
    )
    dev.add_argument(
        "--sandboxes",
        type=_count,
        default=8,
        metavar="N",
        help="processes of each function at the most (8)",
    )
    dev.add_argument(
        "--timeout-s", type=_seconds, metavar="S", help="timeout of every function (each its own)"
    )
    dev.add_argument(
        "--env",
        type=_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable for every function; may be repeated",
    )
    dev.add_argument(
        "--exit-with-stdin",
        action="store_true",
        help="end when standard input ends, as it does when whoever holds its other end is killed",
    )
    dev.set_defaults(run=_dev)
    _add_token(dev)


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


def _dev(options: argparse.Namespace) -> int:
    from oncekey_local import dev  # noqa: PLC0415 - `oncekey dev token` needs none of it

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
    )
    return asyncio.run(dev.run(service, settings, exit_with_stdin=options.exit_with_stdin))


def _token(options: argparse.Namespace) -> int:
    from oncekey_local import tokens  # noqa: PLC0415 - as above

    print(
        tokens.issue(
            tenant=options.tenant, subject=options.subject, expires_in_s=options.expires_in_s
        )
    )
    return 0


def _demo(arguments: Sequence[str]) -> int:
    # Lazily, and by name: nothing else here needs the demo or what it imports.
    status: int = importlib.import_module("oncekey_local.demo").main(arguments)
    return status


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


def _port(text: str) -> int:
    if text.isdecimal() and int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port: use 0 to 65535")


def _count(text: str) -> int:
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of processes: use 1 or more")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if 0 < seconds <= 900:
        return seconds
    raise argparse.ArgumentTypeError(
        f"{text!r} is no timeout: use seconds, more than 0 and at most 900"
    )


def _setting(text: str) -> tuple[str, str]:
    if found := _SETTING.fullmatch(text):
        return found["name"], found["value"]
    raise argparse.ArgumentTypeError(f"{text!r} must look like NAME=VALUE")


if __name__ == "__main__":
    sys.exit(main())
