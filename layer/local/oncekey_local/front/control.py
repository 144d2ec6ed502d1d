"""The control paths of `oncekey dev`, beside the service's own paths."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from aiohttp import web

from oncekey_local.server_guards import lower_case
from oncekey_local.store.client import UNANSWERED, Refused
from oncekey_operator.console.guards import foreign

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey_local.events.event_sources import EventSources

CONTROL_PREFIX = "/_dev/"
_SCHEDULES = "schedules/"


class Control:
    """Answers `GET` of `/_dev/processes`, `/_dev/queues` and `/_dev/schedules`.

    And `POST /_dev/redrive?queue=NAME`, and `POST /_dev/schedules/FUNCTION`, which calls a function
    as its schedule does.
    """

    def __init__(
        self, processes: Callable[[], list[dict[str, object]]], event_sources: EventSources
    ) -> None:
        self._processes = processes
        self._event_sources = event_sources

    async def handle(self, request: web.BaseRequest, path: str, query: str) -> web.Response:
        """Answers one request, whose path begins with `CONTROL_PREFIX`.

        Pages of other origins are refused, because any page may send requests to this machine.
        """
        if reason := foreign(lower_case(request.headers)):
            return _json({"message": f"refused: {reason}"}, status=403)
        try:
            match request.method, path.removeprefix(CONTROL_PREFIX):
                case "GET", "processes":
                    return _json(self._processes())
                case "GET", "queues":
                    return _json(await self._event_sources.queues())
                case "GET", "schedules":
                    return _json(self._event_sources.schedules())
                case "POST", what if what.startswith(_SCHEDULES):
                    return await self._call_now(what.removeprefix(_SCHEDULES))
                case "POST", "redrive":
                    return await self._redrive(parse_qs(query).get("queue", [""])[-1])
                case _:
                    return _json({"message": "Not Found"}, status=404)
        except (*UNANSWERED, Refused) as error:
            return _json({"message": f"the store does not answer: {error}"}, status=503)

    async def _redrive(self, queue: str) -> web.Response:
        try:
            moved = await self._event_sources.redrive(queue)
        except KeyError:
            return _unknown(f"there is no queue {queue!r}", "queues")
        return _json({"queue": queue, "moved": moved})

    async def _call_now(self, function: str) -> web.Response:
        try:
            outcome = await self._event_sources.call_now(function)
        except KeyError:
            return _unknown(f"no function {function!r} has a schedule", "schedules")
        said = json.loads(outcome.payload) if outcome.payload else None
        return _json({"function": function, "outcome": outcome.kind, "said": said})


def _unknown(message: str, where: str) -> web.Response:
    """The answer for an unknown name, with the path that lists the known ones."""
    known = f"GET {CONTROL_PREFIX}{where} shows those there are"
    return _json({"message": f"{message}: {known}"}, status=404)


def _json(content: object, *, status: int = 200) -> web.Response:
    return web.Response(text=json.dumps(content), status=status, content_type="application/json")
