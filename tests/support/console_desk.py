"""A desk with given records, for tests of the console itself: it notes what it is asked to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.errors import StoreError
from oncekey.record.references import read_reference, reference_to
from oncekey.testing import ManualClock
from oncekey_operator.console.console import Access, Console
from oncekey_operator.console.desk import Listing
from oncekey_operator.console.exchange import Request
from oncekey_operator.exits import CommandError
from tests.support.records import NOW_MS, record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from oncekey.record.record import Record
    from oncekey_operator.console.desk import Wanted
    from oncekey_operator.console.exchange import Response
    from oncekey_operator.console.life import Event

TOKEN = "token-of-this-run"
PK = f"v1#{'A' * 43}"
ANSWER = '{"statusCode": 201, "body": "secret answer"}'


class GivenDesk:
    """Shows the given records. `trouble` is raised by every call."""

    place = "table payments, eu-west-1"
    where = " --table payments"

    def __init__(self, *records: Record, trouble: Exception | None = None) -> None:
        self.records = records
        self.trouble = trouble
        self.wanted: list[Wanted] = []
        self.done: list[tuple[str, dict[str, Any]]] = []

    def operations(self, wanted: Wanted) -> Listing:
        """See `Desk`."""
        self._fail()
        self.wanted.append(wanted)
        return Listing(records=self.records, is_whole=True, is_scanned=False)

    def operation(self, reference: str) -> Record | None:
        """See `Desk`."""
        read_reference(reference)
        return next((one for one in self.records if reference_to(one) == reference), None)

    def history(self, record: Record) -> Sequence[Event]:
        """See `Desk`."""
        return ()

    def revealed(self, record: Record) -> Mapping[str, Any]:
        """See `Desk`."""
        return {"key": record.key, "answer": record.response}

    def outbox(self) -> Sequence[Mapping[str, Any]]:
        """See `Desk`."""
        return ()

    def queues(self) -> Sequence[Mapping[str, Any]]:
        """See `Desk`."""
        return ()

    def pauses(self) -> Sequence[Mapping[str, Any]]:
        """See `Desk`."""
        return ()

    def settle(self, reference: str, given: Mapping[str, Any]) -> str:
        """See `Desk`."""
        return self.act("settle", given)

    def act(self, action: str, given: Mapping[str, Any]) -> str:
        """See `Desk`."""
        self._fail()
        self.done.append((action, dict(given)))
        return f"{action}: done"

    def _fail(self) -> None:
        if self.trouble is not None:
            raise self.trouble


STORE_DOWN = StoreError("no answer", transient=True)
REFUSED = CommandError("it is still running")


def console(desk: GivenDesk, **access: Any) -> Console:
    """A console on `desk` that changes nothing, unless `access` says more."""
    return Console(desk, Access(token=TOKEN, **access), clock=ManualClock(NOW_MS))


def unknown(**changes: Any) -> Record:
    """An unknown operation with a secret key and a secret answer."""
    return record(**{"pk": PK, "response": ANSWER, **changes})


def get(
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
) -> Request:
    """A request as the console's own page sends it."""
    return Request(method="GET", path=path, query=query or {}, headers=_own(headers))


def post(path: str, body: bytes, *, headers: Mapping[str, str] | None = None) -> Request:
    """An action as the console's own page sends it."""
    own = {"content-type": "application/json", "origin": "http://127.0.0.1:8099"}
    return Request(method="POST", path=path, body=body, headers=_own({**own, **(headers or {})}))


def _own(headers: Mapping[str, str] | None) -> dict[str, str]:
    own = {
        "host": "127.0.0.1:8099",
        "sec-fetch-site": "same-origin",
        "x-oncekey-console": TOKEN,
        **(headers or {}),
    }
    return {name: value for name, value in own.items() if value}


def message(response: Response) -> str:
    """What a refusal or an action says."""
    import json

    said: str = json.loads(response.body)["message"]
    return said
