"""The `oncekey` command."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import json
import sys
import tomllib
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oncekey_local import arguments
from oncekey_local.description import DescriptionInvalid, Service
from oncekey_operator import commands as operator_commands

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        if missing := [name for name in options.needs if importlib.util.find_spec(name) is None]:
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
        prog="oncekey",
        description="Run, examine and operate a service whose requests take effect once.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_new(commands)
    _add_dev(commands)
    _add_demo(commands)
    _add_openapi(commands)
    operator_commands.add_to(commands)
    return parser


def _add_new(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    new = commands.add_parser(
        "new",
        help="write a small service of your own",
        description="Writes a small service: a protected handler, a worker, their tests, the "
        "description, and a CDK app. Its README has the next commands.",
    )
    new.add_argument(
        "folder", metavar="DIR", help="a new or empty folder; its name is the service's"
    )
    new.set_defaults(run=partial(operator_commands.run, "new", _new), needs=())


def _add_dev(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    dev = commands.add_parser(
        "dev",
        help="run the service on this machine",
        description="Runs the whole service on this machine until Ctrl-C, which leaves no process "
        "behind (exit status 0). Standard output has one line, once everything answers; all else "
        "is on standard error.",
    )
    dev.set_defaults(run=_dev, needs=_EXTRA)
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
    _add_service(dev)
    dev.add_argument(
        "--no-reload",
        action="store_true",
        help="keep the functions' code as it is at the start, whatever is edited",
    )
    dev.add_argument(
        "--sandboxes",
        type=arguments.count,
        default=8,
        metavar="N",
        help="processes of each function at the most (8)",
    )
    dev.add_argument(
        "--warm",
        type=arguments.count_or_zero,
        default=1,
        metavar="N",
        help="processes of each function that are started before a call comes (1)",
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


def _add_service(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--service",
        metavar="MODULE:NAME",
        help="the description (what pyproject.toml says: [tool.oncekey] service)",
    )


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
            arguments.schedule,
            None,
            "time between the calls of periodic functions (each its own); off: no schedule calls",
        ),
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
        "--expires-in-s",
        type=arguments.lifetime,
        default=3600,
        metavar="S",
        help="lifetime in seconds (3600)",
    )
    token.set_defaults(run=partial(operator_commands.run, "dev token", _token))


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
    demo.set_defaults(run=_demo, needs=_EXTRA)


def _add_openapi(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    openapi = commands.add_parser(
        "openapi",
        help="print the service's OpenAPI document",
        description="Prints the OpenAPI 3.1 document of a service as JSON. It imports the modules "
        "of the functions that have routes.",
    )
    _add_service(openapi)
    openapi.set_defaults(run=partial(operator_commands.run, "openapi", _openapi), needs=())


def _openapi(options: argparse.Namespace) -> int:
    from oncekey_local.openapi.document import document_of  # noqa: PLC0415 - as above

    try:
        document = document_of(load_service(options.service or described_in(Path.cwd())))
    except (ValueError, ImportError, AttributeError) as error:
        print(f"oncekey openapi: {error}", file=sys.stderr)
        return _USAGE_ERROR
    print(json.dumps(document, indent=2))
    return 0


def _dev(options: argparse.Namespace) -> int:
    from oncekey_local import dev  # noqa: PLC0415 - `--help` works without the extra

    try:
        reference = options.service or described_in(Path.cwd())
        service = load_service(reference)
    except ValueError as error:
        print(f"oncekey dev: {error}", file=sys.stderr)
        return _USAGE_ERROR
    settings = dev.Options(
        service=reference,
        port=options.port,
        store_port=options.store_port,
        provider_port=options.provider_port,
        sandboxes=options.sandboxes,
        warm=options.warm,
        timeout_s=options.timeout_s,
        environment=dict(options.env),
        holds_webhooks=options.webhooks == "hold",
        reloads=not options.no_reload,
        pumps=dev.PumpSettings(
            retry_s=options.retry_s,
            window_s=options.window_s,
            visibility_timeout_s=options.visibility_timeout_s,
            schedule_s=options.schedule_s,
        ),
    )
    return asyncio.run(dev.run(service, settings, exit_with_stdin=options.exit_with_stdin))


def _new(options: argparse.Namespace) -> int:
    from oncekey_local import new  # noqa: PLC0415 - as above

    try:
        print(new.write(Path(options.folder)))
    except ValueError as error:
        print(f"oncekey new: {error}", file=sys.stderr)
        return _USAGE_ERROR
    except OSError as error:
        what = error.strerror or str(error)
        print(f"oncekey new: {error.filename or options.folder}: {what}", file=sys.stderr)
        return _USAGE_ERROR
    return 0


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


def described_in(folder: Path) -> str:
    """What `pyproject.toml` in `folder` names as the description.

    Raises:
        ValueError: it names none. The message says how to.
    """
    how = 'say --service MODULE:NAME, or add to pyproject.toml: [tool.oncekey] service = "..."'
    try:
        named: Any = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
    except FileNotFoundError:
        raise ValueError(f"no pyproject.toml in {folder} names a service: {how}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"pyproject.toml cannot be read: {error}") from None
    for name in ("tool", "oncekey", "service"):
        named = named.get(name) if isinstance(named, dict) else None
    if isinstance(named, str):
        return named
    raise ValueError(f"pyproject.toml names no service: {how}")


def load_service(reference: str) -> Service:
    """The description that `module:attribute` names, found from the working directory.

    Raises `ValueError` that says what is wrong with the reference. A module that fails on import
    shows its traceback.
    """
    module_name, colon, attribute = reference.partition(":")
    if not (module_name and colon and attribute.isidentifier()):
        raise ValueError(
            f"--service {reference!r} must look like MODULE:NAME, such as service:SERVICE"
        )
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if f"{module_name}.".startswith(f"{error.name}."):
            raise ValueError(
                f"--service {reference}: {error} in {Path.cwd()}; run from the root of the project,"
                " or correct the name"
            ) from error
        raise ValueError(
            f"--service {reference}: its module needs another one: {error}; install it, or correct"
            " the import"
        ) from error
    except DescriptionInvalid:
        raise
    except Exception as error:
        traceback.print_exc()
        raise ValueError(f"--service {reference}: its module fails on import, see above") from error
    service = getattr(module, attribute, None)
    if isinstance(service, Service):
        _check_handlers(service)
        return service
    what = "nothing" if service is None else f"a {type(service).__name__}"
    raise ValueError(
        f"--service {reference} names {what}: it must name an oncekey_local.description.Service;"
        f" {_services_of(module_name, vars(module))}"
    )


def _check_handlers(service: Service) -> None:
    faults = [
        f"function {one.name!r} has the handler {one.handler!r}, and there is no such module in"
        f" {Path.cwd()}: correct handler=, which is MODULE.NAME from here"
        for one in service.functions
        if not _has_module(one.handler)
    ]
    if faults:
        raise ValueError("; ".join(faults))


def _services_of(module_name: str, names: Mapping[str, object]) -> str:
    found = [name for name, value in names.items() if isinstance(value, Service)]
    if not found:
        return "the module has none"
    return "use " + " or ".join(f"{module_name}:{name}" for name in found)


def _has_module(handler: str) -> bool:
    try:
        return importlib.util.find_spec(handler.rpartition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


if __name__ == "__main__":
    sys.exit(main())
