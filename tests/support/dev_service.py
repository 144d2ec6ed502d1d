"""The local runtime as a real process, with the sample service or another one."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from oncekey_local.dev_process import DevProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[2]
SAMPLE_SERVICE = "tests.support.sample_service:SERVICE"
_PATIENCE_S = 60


@contextlib.contextmanager
def running(
    service: str = SAMPLE_SERVICE,
    *,
    env: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    **options: object,
) -> Iterator[DevProcess]:
    """`oncekey dev` for the length of a block.

    `env` are variables for the functions, `environment` variables for `oncekey dev` itself; any
    other option is the command's own, such as `timeout_s=1`.
    """
    arguments = ["--service", service]
    for name, value in (env or {}).items():
        arguments += ["--env", f"{name}={value}"]
    for name, option in options.items():
        arguments += [f"--{name.replace('_', '-')}", str(option)]
    with DevProcess(*arguments, cwd=str(ROOT), environment=environment) as dev:
        yield dev


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, with all its header lines."""

    status: int
    header_lines: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        """By lower-case name; of a repeated one, the last."""
        return {name.lower(): value for name, value in self.header_lines}

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def send(
    url: str,
    method: str = "GET",
    path: str = "/",
    *,
    token: str | None = None,
    headers: Mapping[str, str | bytes] | None = None,
    body: bytes | None = None,
) -> Answer:
    """One request on a connection of its own.

    Raises what `http.client` raises when it is not answered.
    """
    address = urlsplit(url)
    sent: dict[str, str | bytes] = {"Authorization": f"Bearer {token}"} if token else {}
    connection = http.client.HTTPConnection(
        address.hostname or "", address.port, timeout=_PATIENCE_S
    )
    with contextlib.closing(connection):
        connection.request(method, path, body=body, headers={**sent, **(headers or {})})
        response = connection.getresponse()
        return Answer(response.status, tuple(response.getheaders()), response.read())


def is_alive(pid: int) -> bool:
    """Whether there is a process with this id that is not merely waiting to be reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
