"""The console: one table of handlers, from a request to a response."""

from __future__ import annotations

import json
import traceback
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, NoReturn

from oncekey.clock import SystemClock
from oncekey.errors import StoreError
from oncekey_operator.console import guards, views
from oncekey_operator.console.desk import Wanted
from oncekey_operator.console.exchange import (
    JSON_TYPE,
    Request,
    Response,
    json_response,
    problem,
)
from oncekey_operator.console.given import named
from oncekey_operator.exits import CommandError, Exit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from oncekey.clock import Clock
    from oncekey_operator.console.desk import Desk, Workshop

_PAGE = {
    "": ("index.html", "text/html"),
    "console.css": ("console.css", "text/css"),
    "console.js": ("console.js", "text/javascript"),
    "parts.js": ("parts.js", "text/javascript"),
    "settling.js": ("settling.js", "text/javascript"),
    "workshop.js": ("workshop.js", "text/javascript"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
_MOST_BODY_BYTES = 1024 * 1024
_STATUSES = {Exit.REFUSED: 409, Exit.USAGE: 400, Exit.NO_ANSWER: 503}
_OPERATION = "api/operations/"
_ACTIONS = ("requeue", "redrive", "pause", "resume")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the console permits.

    `token` is asked for in each call of the API. With `is_open`, the page gets it from the console
    itself; otherwise only the address that the command prints has it, and so other users of the
    machine have no access. `refresh_ms` is how often the page asks again.
    """

    token: str
    is_open: bool = False
    changes: bool = False
    reveals: bool = False
    refresh_ms: int = 5_000


class Console:
    """Answers every request to the console, on any thread."""

    def __init__(
        self,
        desk: Desk,
        access: Access,
        *,
        workshop: Workshop | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._desk = desk
        self._access = access
        self._workshop = workshop
        self._clock = clock or SystemClock()
        self._views: dict[str, Callable[[Request], object]] = {
            "api/operations": self._operations,
            "api/messages": self._messages,
        }
        self._changes: dict[str, Callable[[Mapping[str, Any]], str]] = {
            "api/settle": lambda given: desk.settle(named(given, "reference"), given),
            **{f"api/{name}": _acting(desk, name) for name in _ACTIONS},
        }
        if workshop is not None:
            self._views["api/workshop"] = lambda _: workshop.state()
            self._changes["api/workshop"] = lambda given: workshop.do(named(given, "do"), given)

    def handle(self, request: Request) -> Response:
        """Answers one request. It raises nothing that a client or the store could cause."""
        if reason := guards.foreign(request.headers):
            return problem(403, f"refused: {reason}")
        if request.path in _PAGE:
            return _file(request)
        if request.path == "api/session" and request.method == "GET":
            return json_response(self._session(request))
        if not guards.has_token(request.headers, self._access.token):
            return problem(401, "use the whole address that the command printed, with its token")
        try:
            return self._answer(request)
        except Exception as error:  # noqa: BLE001 -- the page shows it, and the console goes on
            return _failure(error)

    def _answer(self, request: Request) -> Response:
        if request.method == "GET":
            if request.path.startswith(_OPERATION):
                return self._operation(request.path.removeprefix(_OPERATION))
            if view := self._views.get(request.path):
                return json_response(view(request))
            return problem(404, "there is no such page")
        change = self._changes.get(request.path)
        if request.method != "POST" or change is None:
            return problem(404, "there is no such action")
        if not self._access.changes:
            return problem(403, "this console only reads: start it with --allow-changes")
        return json_response({"message": change(_json(request))})

    def _session(self, request: Request) -> dict[str, object]:
        access = self._access
        if not access.is_open and not guards.has_token(request.headers, access.token):
            return {"needs_token": True}
        return {
            "token": access.token,
            "place": self._desk.place,
            "changes": access.changes,
            "reveals": access.reveals,
            "workshop": self._workshop is not None,
            "refresh_ms": access.refresh_ms,
        }

    def _operations(self, request: Request) -> object:
        query = request.query
        wanted = Wanted(
            state=query.get("state", ""),
            tenant=query.get("tenant", ""),
            operation=query.get("operation", ""),
            settled=query.get("settled") == "1",
        )
        listing, now_ms = self._desk.operations(wanted), self._clock.now_ms()
        rows = [views.row(record, now_ms) for record in listing.records]
        return {
            "now": now_ms,
            "rows": rows,
            "is_whole": listing.is_whole,
            "is_scanned": listing.is_scanned,
        }

    def _operation(self, reference: str) -> Response:
        record = self._desk.operation(reference)
        if record is None:
            return problem(404, "this operation has expired, or was never there")
        now_ms = self._clock.now_ms()
        local = self._workshop is not None
        history, where = self._desk.history(record), self._desk.where
        said = views.detail(record, now_ms, history, local=local, where=where)
        if self._access.reveals:
            said["revealed"] = self._desk.revealed(record)
        return json_response({"now": now_ms, **said})

    def _messages(self, _: Request) -> object:
        desk = self._desk
        return {
            "now": self._clock.now_ms(),
            "outbox": desk.outbox(),
            "queues": desk.queues(),
            "pauses": desk.pauses(),
        }


def _failure(error: Exception) -> Response:
    from botocore.exceptions import BotoCoreError, ClientError

    match error:
        case CommandError():
            return problem(_STATUSES[error.status], str(error))
        case ValueError():
            return problem(400, str(error))
        case StoreError() | BotoCoreError() | ClientError():
            return problem(503, f"The store did not answer: {error}")
        case _:
            traceback.print_exception(error)
            return problem(500, f"The console failed: {type(error).__name__}")


def _acting(desk: Desk, action: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda given: desk.act(action, given)


def _file(request: Request) -> Response:
    if request.method != "GET":
        return problem(405, "use GET")
    name, media_type = _PAGE[request.path]
    body = resources.files("oncekey_operator.console").joinpath("page", name).read_bytes()
    return Response(status=200, body=body, content_type=f"{media_type}; charset=utf-8")


def _json(request: Request) -> Mapping[str, Any]:
    # A form or a plain text is what a page of another origin could send without being asked.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON_TYPE:
        raise ValueError(f"send {JSON_TYPE}")
    if len(request.body) > _MOST_BODY_BYTES:
        raise ValueError(f"the body is larger than {_MOST_BODY_BYTES} bytes")
    try:
        given = json.loads(request.body, parse_constant=_no_json)
        # Neither a table nor a client gets half of a surrogate pair, or what 1e400 is to Python.
        json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise ValueError("send a JSON object")  # noqa: TRY004 -- of the sender's, not of ours
    return given


def _no_json(constant: str) -> NoReturn:
    # Python reads NaN and Infinity, and would send them to a client that cannot.
    raise ValueError(constant)
