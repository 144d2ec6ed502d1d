"""What is kept of each release: the items that a request left behind, and what its retry got.

`python -m tests.released.stories` writes the samples of the present release. A release that changes
what is stored on purpose does so under its new version; samples of older versions stay.
"""

from __future__ import annotations

import base64
import contextlib
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oncekey import NotExecuted
from oncekey.outbox.envelope import sealed
from oncekey.store.dynamodb.outbox import message_from_item
from oncekey.testing import ManualClock
from tests.released.service import OUTBOX, Service
from tests.support.dynamodb import TABLE, dynamodb_table, make_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

FOLDER = Path(__file__).parent
# The release whose samples are written. Samples of a release that is out are never written again.
VERSION = "0.1.0"
MINUTE_MS, DAY_MS = 60_000, 86_400_000
BEGAN_MS = 1_780_000_000_000
_MOST_DRAWN = 10


@dataclass(frozen=True, slots=True)
class Story:
    """A request, and what comes after it.

    `first` sends the request and calls its second argument at the moment at which the tables are
    kept. `then` sends what comes `later_ms` later, and returns what was answered.
    """

    first: Callable[[Service, Callable[[], None]], None]
    then: Callable[[Service], list[Any]]
    later_ms: int = MINUTE_MS


def _completed(path: str, **body: Any) -> Story:
    def first(service: Service, keep: Callable[[], None]) -> None:
        service.send(path, **body)
        keep()

    return Story(first, lambda service: [service.send(path, **body), service.send(path, other=1)])


def _killed_in(effect: str, path: str, later_ms: int = MINUTE_MS) -> Story:
    def first(service: Service, keep: Callable[[], None]) -> None:
        with service.at(effect, keep):
            service.send(path)

    return Story(first, lambda service: [service.send(path), service.send(path)], later_ms)


def _failed_in(effect: str, path: str, error: Exception) -> Story:
    def fail() -> None:
        raise error

    def first(service: Service, keep: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError), service.at(effect, fail):
            service.send(path)
        keep()

    return Story(first, lambda service: [service.send(path), service.send(path)])


def _expired() -> Story:
    story = _completed("/orders")
    return Story(story.first, lambda service: [service.send("/orders")], DAY_MS + MINUTE_MS)


def _function() -> Story:
    def first(service: Service, keep: Callable[[], None]) -> None:
        service.call()
        keep()

    return Story(first, lambda service: [service.call()])


def _queued() -> Story:
    def first(service: Service, keep: Callable[[], None]) -> None:
        service.send("/reports")
        keep()

    def then(service: Service) -> list[Any]:
        answers = [service.send("/reports")]
        for item in service.client.scan(TableName=OUTBOX)["Items"]:
            service.work(sealed(message_from_item(item)))
        return [*answers, service.send("/reports")]

    return Story(first, then, 1_000)


STORIES: dict[str, Story] = {
    "completed": _completed("/orders"),
    "completed-with-an-error": _completed("/orders", status=422),
    "compressed": _completed("/orders", size=3_000),
    "companion": _completed("/orders", noise=6_000),
    "recorded": _completed("/charges"),
    "stripe": _completed("/refunds"),
    "function": _function(),
    "expired": _expired(),
    "queued": _queued(),
    "running": _killed_in("order", "/orders", 1_000),
    "killed": _killed_in("order", "/orders"),
    "killed-repeatable": _killed_in("refund", "/refunds"),
    "killed-between-steps": _killed_in("reserve", "/charges"),
    "killed-in-a-step": _killed_in("charge", "/charges"),
    "failed": _failed_in("order", "/orders", RuntimeError()),
    "declined": _failed_in("order", "/orders", NotExecuted()),
    "half-done": _failed_in("charge", "/charges", NotExecuted()),
}


def recorded(client: DynamoDBClient, name: str) -> dict[str, Any]:
    """The sample of a story, as the present code makes it in the tables behind `client`."""
    kept: dict[str, Any] = {}

    def keep() -> None:
        kept.update(items=_items(client, TABLE), messages=_items(client, OUTBOX))

    _fill(client, {})
    STORIES[name].first(Service(client, ManualClock(BEGAN_MS)), keep)
    return json.loads(json.dumps({**kept, **played(client, name, kept)}))  # type: ignore[no-any-return]


def played(client: DynamoDBClient, name: str, sample: dict[str, Any]) -> dict[str, Any]:
    """What is answered, and done outside, when the story goes on from the tables of a sample."""
    _fill(client, sample)
    clock = ManualClock(BEGAN_MS + STORIES[name].later_ms)
    # Nobody draws an id that the first request has drawn.
    for _ in range(_MOST_DRAWN):
        clock.new_owner()
    service = Service(client, clock)
    return {"answers": STORIES[name].then(service), "effects": service.effects}


def _fill(client: DynamoDBClient, sample: dict[str, Any]) -> None:
    for table, key, part in ((TABLE, "pk", "items"), (OUTBOX, "id", "messages")):
        for item in client.scan(TableName=table)["Items"]:
            client.delete_item(TableName=table, Key={key: item[key]})
        for item in sample.get(part, []):
            client.put_item(TableName=table, Item=_with_bytes(item))


@contextlib.contextmanager
def tables() -> Iterator[DynamoDBClient]:
    """A client of both tables."""
    with dynamodb_table() as client:
        make_table(client, OUTBOX)
        yield client


def _items(client: DynamoDBClient, table: str) -> list[Any]:
    found = client.scan(TableName=table)["Items"]
    return sorted((_without_bytes(item) for item in found), key=json.dumps)


def inflated(value: Any) -> Any:
    """The items of a sample with their bytes inflated: versions of zlib compress differently."""
    match value:
        case {"B": text}:
            data = base64.b64decode(text)
            # A pointer's data is JSON as it is.
            return {"inflated": (data if data[:1] == b"{" else zlib.decompress(data)).decode()}
        case dict():
            return {name: inflated(each) for name, each in value.items()}
        case list():
            return [inflated(each) for each in value]
        case _:
            return value


def _without_bytes(value: Any) -> Any:
    """The same, as JSON has it: bytes in base64."""
    match value:
        case {"B": content}:
            return {"B": base64.b64encode(bytes(content)).decode()}
        case dict():
            return {name: _without_bytes(each) for name, each in value.items()}
        case _:
            return value


def _with_bytes(value: Any) -> Any:
    match value:
        case {"B": content}:
            return {"B": base64.b64decode(content)}
        case dict():
            return {name: _with_bytes(each) for name, each in value.items()}
        case _:
            return value


if __name__ == "__main__":
    (FOLDER / VERSION).mkdir(exist_ok=True)
    with tables() as own_client:
        for story_name in STORIES:
            text = json.dumps(recorded(own_client, story_name), indent=1)
            (FOLDER / VERSION / f"{story_name}.json").write_text(text + "\n", "utf-8")
