"""The local store in this process, and a function that the test plays."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.test_utils import RawTestServer as Server

from oncekey_local.description import Service
from oncekey_local.events.event_sources import EventSources
from oncekey_local.events.pumps import PumpSettings
from oncekey_local.functions.environment import queue_url, table_name
from oncekey_local.functions.runtime_api import Outcome, OutcomeKind
from oncekey_local.store.client import StoreClient
from oncekey_local.store.engines import moto_engines
from oncekey_local.store.queues import create_queues
from oncekey_local.store.store import Store
from oncekey_local.store.tables import create_tables
from tests.support.sample_event_desk import Batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    import pytest

_PATIENCE_S = 60
# moto's state is one for the whole process.
_numbers = itertools.count()
# As fast as it goes, for stories in which no message comes back.
FAST = PumpSettings(retry_s=0.01, visibility_timeout_s=60)
# The shortest visibility timeout that SQS has, for those in which one does.
FORGETFUL = PumpSettings(retry_s=0.01, visibility_timeout_s=1)


@dataclass(frozen=True)
class Call(Batch):
    """An invocation that waits for its outcome."""

    _outcome: asyncio.Future[Outcome]

    def answer(self, value: object = None) -> None:
        """The function returns this."""
        payload = json.dumps(value).encode()
        self._outcome.set_result(Outcome(kind=OutcomeKind.RESULT, payload=payload))

    def answer_failed(self, *ids: str) -> None:
        """The function returns that these have failed."""
        self.answer({"batchItemFailures": [{"itemIdentifier": one} for one in ids]})

    def end(self, kind: OutcomeKind) -> None:
        """The function ends otherwise."""
        self._outcome.set_result(Outcome(kind=kind))


class PlayedFunction:
    """A function whose invocations come to the test, one after the other."""

    def __init__(self) -> None:
        self._calls: asyncio.Queue[Call] = asyncio.Queue()

    async def invoke(self, event: bytes) -> Outcome:
        """What a pump calls."""
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._calls.put_nowait(Call(json.loads(event), outcome))
        return await outcome

    async def call(self) -> Call:
        """The next invocation."""
        async with asyncio.timeout(_PATIENCE_S):
            return await self._calls.get()

    @property
    def waiting(self) -> int:
        """How many invocations the test has not asked for yet."""
        return self._calls.qsize()


class Events:
    """A service whose only function the test plays, with its pumps running."""

    def __init__(self, service: Service, client: StoreClient, sources: EventSources) -> None:
        self.service = service
        self.client = client
        self.sources = sources
        self.function = PlayedFunction()

    async def send(self, queue: str, *bodies: str, group: str | None = None) -> None:
        """Sends messages in one call, ten at the most: a pump that waits gets them together."""
        entries = [
            {"Id": str(number), "MessageBody": body}
            | ({"MessageGroupId": group, "MessageDeduplicationId": body} if group else {})
            for number, body in enumerate(bodies)
        ]
        await self.client.sqs("SendMessageBatch", {"QueueUrl": self.url(queue), "Entries": entries})

    async def put(self, *keys: str, **attributes: dict[str, str]) -> None:
        """Puts items into the table `outbox`, one after the other."""
        for key in keys:
            item = {"pk": {"S": key}, **attributes}
            await self.client.dynamodb("PutItem", {"TableName": self.table, "Item": item})

    async def receive(self, queue: str) -> list[dict[str, Any]]:
        """What a queue that no pump empties has."""
        request = {"QueueUrl": self.url(queue), "MaxNumberOfMessages": 10, "WaitTimeSeconds": 20}
        answer = await self.client.sqs("ReceiveMessage", request)
        messages: list[dict[str, Any]] = answer["Messages"]
        return messages

    async def until(self, queue: str, **counts: int) -> None:
        """Returns when the queue has so many messages of each kind."""
        async with asyncio.timeout(_PATIENCE_S):
            while counts.items() - (await self.sources.queues())[queue].items():
                pass

    async def until_said(self, capsys: pytest.CaptureFixture[str], text: str) -> None:
        """Returns when the log says this; what it said until then is gone."""
        async with asyncio.timeout(_PATIENCE_S):
            while text not in capsys.readouterr().err:
                await self.faults()  # the store's turn, and the pumps'

    async def faults(self, **faults: object) -> None:
        """Sets faults of the store."""
        async with aiohttp.ClientSession() as session:
            answer = await session.post(f"{self.client.url}/_faults", json=faults)
            assert answer.status == 200

    def url(self, queue: str) -> str:
        """A queue's URL."""
        return queue_url(self.service, queue, self.client.url)

    @property
    def table(self) -> str:
        """The physical name of the table `outbox`."""
        return table_name(self.service, "outbox")


@contextlib.asynccontextmanager
async def running(
    service: Service, settings: PumpSettings = FAST, *, sandboxes: int = 8
) -> AsyncIterator[Events]:
    """A service like this one, under a name of its own, in a store of its own."""
    own = Service(
        name=f"{service.name}-{next(_numbers)}",
        functions=service.functions,
        tables=service.tables,
        queues=service.queues,
    )
    store = Store(moto_engines())
    async with Server(store.handle) as server, aiohttp.ClientSession() as session:
        client = StoreClient(session, str(server.make_url("")).rstrip("/"))
        await create_tables(client, own)
        await create_queues(client, own, settings.visibility_timeout_s)
        sources = EventSources(own, client, settings, sandboxes=sandboxes)
        events = Events(own, client, sources)
        sources.start({function.name: events.function.invoke for function in own.functions})
        try:
            yield events
            assert not [pump for pump in sources.pumps if pump.done()]
        finally:
            await sources.stop()


def play(
    story: Callable[[Events], Awaitable[None]],
    service: Service,
    settings: PumpSettings = FAST,
    *,
    sandboxes: int = 8,
) -> None:
    """Runs a story against a running service."""

    async def tell() -> None:
        async with running(service, settings, sandboxes=sandboxes) as events:
            await story(events)

    asyncio.run(tell())
