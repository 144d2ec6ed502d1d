"""What can be done to the local runtime from its console: send, kill, break, run now."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
from typing import TYPE_CHECKING, Any, TypeVar

import aiohttp
from yarl import URL

from oncekey_local.front import tokens
from oncekey_local.identifiers import new_id
from oncekey_local.log import log
from oncekey_operator.console.given import named, text, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from oncekey.record.record import Record
    from oncekey_local.console.journal import Journal
    from oncekey_local.description import Service
    from oncekey_local.events.event_sources import EventSources
    from oncekey_local.servers import Server

T = TypeVar("T")

# An answer that takes longer is seen in the timeline.
_PATIENCE_S = 2
# Headers that belong to a connection, or that the front sets anew.
_OF_THE_CONNECTION = frozenset(
    {"host", "content-length", "connection", "accept-encoding", "transfer-encoding", "expect"}
)
_STORE = (
    ("down", "Down", "switch"),
    ("lose_answers", "Lose the answer of the next write", 1),
    ("delay_ms", "Slow", 500),
)
_PROVIDER = (
    ("hold", "Hold calls before they are applied", "switch"),
    ("lose_answer", "Lose the answer of the next call", 1),
    ("fail", "Fail the next call with 500", 1),
    ("decline", "Decline the next charge", 1),
    ("delay_ms", "Slow", 2000),
)


class LocalWorkshop:
    """The `Workshop` of the local runtime. Its methods are called by threads beside the loop."""

    def __init__(
        self,
        service: Service,
        *,
        loop: asyncio.AbstractEventLoop,
        url: str,
        servers: Sequence[Server],
        event_sources: EventSources,
        processes: Callable[[], list[dict[str, Any]]],
        journal: Journal,
        record_of: Callable[[str], Record | None],
    ) -> None:
        self._loop = loop
        self._routes = {
            f"{route.method} {route.path}": route
            for function in service.functions
            for route in function.routes
            if route.method == "POST" and route.authorized
        }
        self._url = url
        self._servers = {server.role: server.url for server in servers}
        self._event_sources = event_sources
        self._processes = processes
        self._journal = journal
        self._record_of = record_of
        self._sending: set[asyncio.Task[tuple[int, str]]] = set()
        self._last_answer = ""

    def state(self) -> Mapping[str, Any]:
        """Processes, schedules, routes, and the faults in force."""
        return self._wait(self._state())

    def do(self, what: str, given: Mapping[str, Any]) -> str:
        """Does one thing, and says what."""
        match what:
            case "send":
                return self._wait(self._send_example(given))
            case "repeat":
                record = self._record_of(named(given, "reference"))
                request = self._journal.request_of(record) if record else None
                if request is None:
                    raise ValueError("no request with this key was seen since the start")
                return self._wait(self._send_again(request))
            case "kill":
                return self._wait(self._kill(whole(given, "pid")))
            case "run":
                return self._wait(self._run(named(given, "function")))
            case "fault":
                return self._wait(self._fault(given))
            case _:
                raise ValueError(f"{what!r} is unknown: use send, repeat, kill, run or fault")

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _state(self) -> Mapping[str, Any]:
        processes = [
            {name: one[name] for name in ("function", "pid", "busy")}
            for one in self._processes()
            if one["role"] == "function"
        ]
        groups = [
            {
                "at": "store",
                "title": "The store",
                "text": "DynamoDB, SQS and S3. While it is down, no operation can be read, either.",
                "faults": await self._faults("store", "/_faults", _STORE),
            }
        ]
        if "provider" in self._servers:
            faults = await self._faults("provider", "/_faults", _PROVIDER)
            events = (("hold", "Hold its events back", "switch"),)
            faults += await self._faults("provider", "/_webhooks", events)
            groups.append(
                {
                    "at": "provider",
                    "title": "The payment provider",
                    "text": "What it does with the calls of the handlers.",
                    "faults": faults,
                }
            )
        return {
            "last_answer": self._last_answer,
            "routes": [
                {"name": name, "body": route.example_body} for name, route in self._routes.items()
            ],
            "processes": sorted(processes, key=lambda one: (not one["busy"], one["function"])),
            "faults": groups,
            "schedules": sorted(self._event_sources.schedules()),
        }

    async def _faults(
        self, role: str, path: str, described: Sequence[tuple[str, str, Any]]
    ) -> list[dict[str, Any]]:
        async with aiohttp.ClientSession() as session, session.get(self._at(role, path)) as answer:
            now = await answer.json()
        return [
            {
                "name": f"{path[2:]}/{name}",
                "label": label,
                "value": now[name],
                "kind": "switch" if kind == "switch" else "number",
                "next": None if kind == "switch" else kind,
            }
            for name, label, kind in described
        ]

    async def _fault(self, given: Mapping[str, Any]) -> str:
        at, value = named(given, "at"), given.get("value")
        where, _, name = named(given, "name").partition("/")
        if at not in self._servers or where not in {"faults", "webhooks"}:
            raise ValueError("name a fault of the store or of the provider")
        async with (
            aiohttp.ClientSession() as session,
            session.post(self._at(at, f"/_{where}"), json={name: value}) as answer,
        ):
            if answer.status != 200:
                raise ValueError((await answer.json()).get("error", "the fault is not known"))
        return f"{at}: {name} = {json.dumps(value)}"

    async def _kill(self, pid: int) -> str:
        functions = {
            one["pid"]: one["function"] for one in self._processes() if one["role"] == "function"
        }
        if pid not in functions:
            raise ValueError("this process has ended already")
        os.kill(pid, signal.SIGKILL)
        return f"killed process {pid} of {functions[pid]}"

    async def _run(self, function: str) -> str:
        try:
            outcome = await self._event_sources.call_now(function)
        except KeyError:
            raise ValueError(f"no function {function!r} has a schedule") from None
        return f"{function} ran: {outcome.kind.value}"

    async def _send_example(self, given: Mapping[str, Any]) -> str:
        route = self._routes.get(named(given, "route"))
        if route is None:
            raise ValueError("the service has no such route")
        headers = {
            "Authorization": f"Bearer {tokens.issue(tenant=text(given, 'tenant') or 'acme')}",
            "Content-Type": "application/json",
            "Idempotency-Key": f"console-{new_id()}",
        }
        body = text(given, "body") or route.example_body
        answered = await self._send(text(given, "path") or route.path, headers, body.encode())
        if answered is None:
            return "It is sent, and still runs."
        # The person has sent the request a moment ago, and so may see its answer.
        status, self._last_answer = answered
        return f"It is answered {status}."

    async def _send_again(self, event: Mapping[str, Any]) -> str:
        body = str(event.get("body", ""))
        raw = base64.b64decode(body) if event.get("isBase64Encoded") else body.encode()
        headers = {
            name: value
            for name, value in event["headers"].items()
            if name not in _OF_THE_CONNECTION and not name.startswith("x-")
        }
        query = event.get("rawQueryString")
        target = event["rawPath"] + (f"?{query}" if query else "")
        answered = await self._send(target, headers, raw)
        return (
            "It is sent, and still runs." if answered is None else f"It is answered {answered[0]}."
        )

    async def _send(
        self, target: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, str] | None:
        """Sends a request to the front. Status and body of its answer; None while it runs."""
        if not target.startswith("/"):
            raise ValueError("the path begins with /")

        async def send() -> tuple[int, str]:
            address = URL(f"{self._url}{target}", encoded=True)
            async with (
                aiohttp.ClientSession() as session,
                session.post(address, data=body, headers=headers) as answer,
            ):
                return answer.status, await answer.text(errors="replace")

        task = asyncio.create_task(send())
        self._sending.add(task)
        task.add_done_callback(self._sent)
        done, _ = await asyncio.wait([task], timeout=_PATIENCE_S)
        return task.result() if done else None

    def _sent(self, task: asyncio.Task[tuple[int, str]]) -> None:
        self._sending.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log(f"[console] a request was not answered: {error}")

    def _at(self, role: str, path: str) -> str:
        return f"{self._servers[role]}{path}"
