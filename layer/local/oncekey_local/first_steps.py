"""The first commands for a person who has just started a service."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oncekey_local.description import Route, Service


def request_to_send(service: Service, url: str) -> list[str]:
    """The lines of a `curl` command that works unchanged in the current directory.

    If the service has a route for the result, a second command requests it. Then follow examples
    for the other routes. Empty for a service without a POST route.
    """
    routes = [route for function in service.functions for route in function.routes]
    authorization = f'-H "Authorization: Bearer $({oncekey_command()} dev token --tenant acme)"'
    for route in routes:
        if route.method == "POST":
            return [
                f"curl -i {url}{route.path} \\",
                f"  {authorization} \\",
                '  -H "Idempotency-Key: try-me-once-0001" -H "Content-Type: application/json" \\',
                f"  -d {shlex.quote(route.example_body)}",
                *_request_to_look(route, routes, url, authorization),
                *_other_bodies(route, routes),
            ]
    return []


def _request_to_look(
    route: Route, routes: Sequence[Route], url: str, authorization: str
) -> list[str]:
    shape = re.compile(re.escape(route.path) + r"/\{(\w+)\}")
    for other in routes:
        if other.method == "GET" and (name := shape.fullmatch(other.path)):
            placeholder = name[1].upper()
            return [
                f"# and what became of it, with the {name[1]} of the answer:",
                f"curl -i {url}{route.path}/{placeholder} \\",
                f"  {authorization}",
            ]
    return []


def _other_bodies(first: Route, routes: Sequence[Route]) -> list[str]:
    # A route without a token needs a signature, which is too difficult to make by hand.
    others = [route for route in routes if route.method == "POST" and route.authorized]
    lines = [f"#   {_filled(other)}  {other.example_body}" for other in others if other != first]
    return ["# in the same way, each with a key of its own:", *lines] if lines else []


def _filled(route: Route) -> str:
    """The method, and the path with a shell's kind of placeholders."""
    return f"{route.method} " + re.sub(r"\{(\w+)\}", lambda name: name[1].upper(), route.path)


def oncekey_command() -> str:
    """The text with which a shell in this directory calls this installation's `oncekey`."""
    python = Path(sys.executable)
    script = python.with_name("oncekey")
    if script.is_file():
        return shlex.quote(_from_here(script))
    return f"{shlex.quote(_from_here(python))} -m oncekey_local.cli"


def _from_here(program: Path) -> str:
    here = Path.cwd()
    # The shell would look up a bare name on its path.
    if program.is_relative_to(here) and program.parent != here:
        return str(program.relative_to(here))
    return str(program)
