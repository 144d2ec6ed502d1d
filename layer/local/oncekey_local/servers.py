"""The store and the provider: child processes that serve HTTP; and how any child is shown."""

from __future__ import annotations

import asyncio
from typing import Any

from oncekey_local.processes import Child, StartFailed, clean_environment

# Far beyond the second or two that it takes.
_START_TIMEOUT_S = 60


class Server:
    """A child process that serves HTTP, and says so with one line."""

    def __init__(self, role: str, child: Child, url: asyncio.Future[str]) -> None:
        self.role = role
        self.child = child
        self.ended = asyncio.create_task(child.wait())
        self._url = url

    @classmethod
    async def start(cls, role: str, module: str, port: int, ready: str, *arguments: str) -> Server:
        """Starts the process; it may not listen yet."""
        url: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def on_line(line: str) -> None:
            if line.startswith(ready) and not url.done():
                url.set_result(line.removeprefix(ready).strip())

        child = await Child.start(
            label=role,
            module=module,
            arguments=("--port", str(port), *arguments),
            environment=clean_environment(),
            on_line=on_line,
        )
        return cls(role, child, url)

    @property
    def url(self) -> str | None:
        """Where it listens, once it does."""
        return self._url.result() if self._url.done() else None

    async def ready(self) -> str:
        """Returns its address when it listens.

        Raises `StartFailed` if it ends instead, or takes too long.
        """
        either: set[asyncio.Future[Any]] = {self._url, self.ended}
        await asyncio.wait(either, timeout=_START_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        if not self._url.done():
            raise StartFailed(f"the {self.role} does not start: its output above says why")
        return self._url.result()


def process_entry(
    role: str,
    pid: int | None,
    *,
    function: str | None = None,
    started: bool = True,
    busy: bool = False,
    request_id: str | None = None,
    address: str | None = None,
) -> dict[str, object]:
    """What is told of a child process: what it is, and what it is doing."""
    return {
        "role": role,
        "function": function,
        "pid": pid,
        "started": started,
        "busy": busy,
        "request_id": request_id,
        "address": address,
    }
