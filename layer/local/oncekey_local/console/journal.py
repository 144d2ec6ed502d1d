"""What the local runtime has seen of each operation: requests, messages, deaths and log lines.

It is kept in memory, for the newest operations, and is never written anywhere.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from oncekey.http.key import HEADER
from oncekey_local.front.http_api_response import remark_on
from oncekey_local.functions.runtime_api import Outcome, OutcomeKind
from oncekey_local.identifiers import now_ms
from oncekey_operator.console.life import Event, Source, Tone

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from oncekey.record.record import Record

_MOST_OPERATIONS = 2_000
_MOST_OF_EACH = 200
_LOG_LINE = re.compile(
    r"oncekey (?P<event>[a-z-]+): .+? (?P<id>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r" attempt (?P<attempt>\d+)(?:: (?P<remark>[^\"]+))?"
)
# The calls themselves show these.
_SEEN_OTHERWISE = frozenset({"reserved", "accepted", "replayed", "refused"})
_BAD_LINES = frozenset({"lease-expired", "outcome-unknown", "ownership-lost", "run-stopped"})
_ENDS = {
    OutcomeKind.DIED: "The process was killed",
    OutcomeKind.TIMED_OUT: "The function timed out",
    OutcomeKind.NOT_STARTED: "No process could be started",
    OutcomeKind.FUNCTION_ERROR: "The function raised",
}


@dataclass(slots=True)
class Call:
    """One call of a function about an operation, from its start to its outcome."""

    function: str
    what: str
    at_ms: int
    outcome: Outcome | None = None
    ended_at_ms: int = 0


@dataclass(slots=True)
class _Seen:
    calls: list[Call] = field(default_factory=list[Call])
    lines: list[Event] = field(default_factory=list[Event])
    request: Mapping[str, Any] | None = None


class Journal:
    """Notes calls and log lines, and finds those about one record."""

    def __init__(self) -> None:
        self._seen: OrderedDict[object, _Seen] = OrderedDict()

    def begin(self, function: str, event: bytes) -> Call | None:
        """Notes the begin of a call; None if it is about no operation that can be told."""
        given = _parsed(event)
        names = list(_names(given))
        if not names:
            return None
        is_request = "routeKey" in given
        what = "A request arrived" if is_request else "A message arrived"
        call = Call(function=function, what=what, at_ms=now_ms())
        for name in names:
            seen = self._of(name)
            seen.calls = [*seen.calls, call][-_MOST_OF_EACH:]
            if is_request:
                seen.request = given
        return call

    def end(self, call: Call | None, outcome: Outcome) -> None:
        """Notes how a call ended."""
        if call is not None:
            call.outcome, call.ended_at_ms = outcome, now_ms()

    def line(self, text: str) -> None:
        """Notes a line of a function's log, if it is one of the layer about an operation."""
        found = _LOG_LINE.search(text)
        if found is None or found["event"] in _SEEN_OTHERWISE:
            return
        name = found["event"]
        remark = f": {found['remark'].strip()}" if found["remark"] else ""
        line = Event(
            at_ms=now_ms(),
            title=name.replace("-", " ").capitalize(),
            detail=f"Log line of attempt {found['attempt']}{remark}",
            tone=Tone.BAD if name in _BAD_LINES else Tone.PLAIN,
            source=Source.RUNTIME,
        )
        seen = self._of(found["id"])
        seen.lines = [*seen.lines, line][-_MOST_OF_EACH:]

    def events_of(self, record: Record) -> list[Event]:
        """What was seen of this life of `record`, in no order."""
        events: list[Event] = []
        for seen in self._about(record):
            events += seen.lines
            for call in seen.calls:
                if call.ended_at_ms >= record.created_at_ms or call.outcome is None:
                    events += _events(call)
        return events

    def request_of(self, record: Record) -> Mapping[str, Any] | None:
        """The event of the newest request with the record's key."""
        return next((seen.request for seen in self._about(record) if seen.request), None)

    def _about(self, record: Record) -> list[_Seen]:
        names: list[object] = [record.operation_id]
        if record.key:
            names.append((record.tenant, record.key))
        return [seen for name in names if (seen := self._seen.get(name)) is not None]

    def _of(self, name: object) -> _Seen:
        seen = self._seen.setdefault(name, _Seen())
        self._seen.move_to_end(name)
        if len(self._seen) > _MOST_OPERATIONS:
            self._seen.popitem(last=False)
        return seen


def _parsed(event: bytes) -> Mapping[str, Any]:
    try:
        given = json.loads(event)
    except (ValueError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}


def _names(event: Mapping[str, Any]) -> Iterator[object]:
    """By what the operations of an event are found: tenant and key, or operation ids."""
    key = (event.get("headers") or {}).get(HEADER)
    if "routeKey" in event and key:
        claims = event["requestContext"].get("authorizer", {}).get("jwt", {}).get("claims", {})
        bare = key.strip().removeprefix('"').removesuffix('"')
        # Which claim is the tenant, only the handler knows.
        yield from {(str(value), bare) for value in claims.values()}
    for each in event.get("Records") or ():
        name = _operation_id(each) if isinstance(each, dict) else None
        # Anybody may send a message with another kind of value.
        if name and isinstance(name, str):
            yield name


def _operation_id(one: Mapping[str, Any]) -> object:
    image = one.get("dynamodb", {}).get("NewImage", {})
    if "operation_id" in image:
        return image["operation_id"].get("S")
    body = _parsed(str(one.get("body", "")).encode("utf-8", "replace"))
    return body.get("operation_id")


def _events(call: Call) -> Iterator[Event]:
    outcome = call.outcome
    if outcome is None:
        yield _event(call.at_ms, call.what, f"{call.function} runs.", Tone.PLAIN)
        return
    took = f"after {call.ended_at_ms - call.at_ms} ms"
    if end := _ENDS.get(outcome.kind):
        yield _event(call.at_ms, call.what, f"{call.function} ran.", Tone.PLAIN)
        yield _event(call.ended_at_ms, end, f"{call.function}, {took}.", Tone.BAD)
        return
    answer = _parsed(outcome.payload)
    if "statusCode" not in answer:
        yield _event(call.at_ms, call.what, f"{call.function} ended {took}.", Tone.PLAIN)
        return
    title, detail, tone = _answered(answer, took)
    yield _event(call.at_ms, title, detail, tone)


def _answered(answer: Mapping[str, Any], took: str) -> tuple[str, str, Tone]:
    status = answer["statusCode"]
    headers = answer.get("headers")
    lines = headers.items() if isinstance(headers, dict) else ()
    remark = remark_on(lines, str(answer.get("body", "")))
    if remark == "replayed":
        return "Replayed", f"A request got {status} from the record, {took}.", Tone.GOOD
    if remark:
        return "Refused", f"A request got {status} {remark}.", Tone.WARNING
    is_good = type(status) is int and status < HTTPStatus.BAD_REQUEST
    tone = Tone.GOOD if is_good else Tone.WARNING
    return "Answered", f"A request ran and got {status}, {took}.", tone


def _event(at_ms: int, title: str, detail: str, tone: Tone) -> Event:
    return Event(at_ms=at_ms, title=title, detail=detail, tone=tone, source=Source.RUNTIME)
