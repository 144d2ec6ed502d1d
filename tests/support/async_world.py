"""Handlers under `mode="queued"`, their messages and their workers, in memory and on moto."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from oncekey.outbox.envelope import sealed
from oncekey.outbox.inbox import Delivered, delivered
from oncekey.queued.jobs import Jobs
from oncekey.queued.status import OperationStatus
from oncekey.store.dynamodb.outbox import message_from_item
from oncekey.store.s3 import ResponseBucket
from oncekey.store.store import Refused
from oncekey.tenants import single_tenant
from tests.support.dynamodb import BUCKET
from tests.support.events import load, with_body, with_route
from tests.support.protected import Answer, Protected, headers_of
from tests.support.recorded import OUTBOX, WITHOUT_END, recorded_world
from tests.support.replacing import replace
from tests.support.steps import FaultyStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from oncekey.record.record import Record
    from tests.support.events import Event
    from tests.support.recorded import World

POST = load("apigw_http_v2_post")
OTHER = with_body(POST, '{"amount": 2}')
ACCEPT, AGAIN = "commit Reserve", "commit Enqueue"
# Everything that a store asks DynamoDB for.
REQUESTS = ("PutItem", "UpdateItem", "GetItem", "TransactWriteItems")
# By default a worker has one hour to begin.
HOUR_MS = 3_600_000
# Of an invocation with the usual time-out: 10 s, and the margin.
LEASE_MS = 15_000


class Meddled(FaultyStore):
    """A store before one call of which, the one with this number from now on, something happens."""

    def __init__(self) -> None:
        super().__init__()
        self._left = -1
        self._then: Callable[[], object] = lambda: None

    def before_call(self, number: int, then: Callable[[], object]) -> None:
        """Do `then` once, when so many more calls have been made."""
        self._left, self._then = number, then

    def _asked(self, call: str, function: Callable[[Any], Any], argument: Any) -> Any:
        self._left -= 1
        if self._left == -1:
            self._then()
        return super()._asked(call, function, argument)


class Accepting(Protected):
    """A handler under `mode="queued"` with its worker; requests and workers share the clock.

    `heard` has what performing the messages came to: "done", or the error's class.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"store": Meddled(), "mode": "queued", **options})
        self.jobs = Jobs(self.handler) if options.get("mode", "queued") == "queued" else None
        self.heard: list[str] = []

    @property
    def record(self) -> Record:
        """The only record."""
        (record,) = self.store.records.values()
        found: Record = record
        return found

    @property
    def messages(self) -> list[Delivered]:
        """What the queue delivers, in the order in which it was written."""
        # In memory a message keeps its payload, wherever it belongs.
        whole = [replace(message, payload_ref=None) for message in self.store.messages]
        return [delivered(sealed(message)) for message in whole]

    @property
    def message(self) -> Delivered:
        """The only message."""
        (message,) = self.messages
        return message

    def perform(self, message: Delivered | None = None) -> None:
        """One delivery, by default of the newest message, to a worker; it raises what that does."""
        assert self.jobs is not None
        self.jobs.perform(message or self.messages[-1], self.context())

    def work(self, message: Delivered | None = None) -> str:
        """The same: "done", or the class of what was raised."""
        try:
            self.perform(message)
        except BaseException as error:  # noqa: BLE001 -- an exit is told apart like anything else
            self.heard.append(type(error).__name__)
        else:
            self.heard.append("done")
        return self.heard[-1]

    def dies(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """One delivery whose worker does `meanwhile` and is dead: nothing that it asks arrives."""

        def handler(_event: object, _op: object) -> NoReturn:
            self.then = None
            meanwhile()
            self._cut_off(is_cut_off=True)
            raise SystemExit(137)

        self.then = handler
        with contextlib.suppress(SystemExit):
            self.perform()
        self._cut_off(is_cut_off=False)

    def lets_the_lease_run_out(self) -> None:
        """Nobody can be at work under any lease that was taken until now."""
        self.clock.advance(LEASE_MS + 1)

    def _cut_off(self, *, is_cut_off: bool) -> None:
        self.store.is_dead = is_cut_off

    def ask(self, operation_id: str = "", **options: Any) -> Answer:
        """What `GET /operations/{operation_id}` says, by default of the only record."""
        options = {"tenant": single_tenant(), **options}
        status = OperationStatus(store=self.store, clock=self.clock, **options)
        return status(status_event(operation_id or self.record.operation_id), self.context())


class TableAccepting(Accepting):
    """The same on the tables of a world on moto."""

    def __init__(self, world: World, *, has_bucket: bool = True, **options: Any) -> None:
        self._world = world
        super().__init__(store=world.store(has_bucket=has_bucket), **options)

    @property
    def record(self) -> Record:
        """The only record in the table, whatever is kept beside it."""
        return self._world.record

    @property
    def messages(self) -> list[Delivered]:
        """What the relay would send, large payloads fetched from the bucket."""
        return [delivered(body, bucket=self._bucket) for body in self.bodies]

    @property
    def bodies(self) -> list[str]:
        """The bodies of the queue's messages, by the time of their messages."""
        found = self._world.client.scan(TableName=OUTBOX, ConsistentRead=True)["Items"]
        messages = sorted(map(message_from_item, found), key=lambda each: each.created_at_ms)
        return [sealed(message) for message in messages]

    def _cut_off(self, *, is_cut_off: bool) -> None:
        for request in REQUESTS:
            self._world.transport.refuse(request, WITHOUT_END if is_cut_off else 0)

    @property
    def _bucket(self) -> ResponseBucket:
        return ResponseBucket(BUCKET, client=self._world.bucket)


def status_event(operation_id: str, shape: str = "apigw_http_v2_post") -> Event:
    """A request of `GET /operations/{operation_id}`, as this shape has it."""
    path, resource = f"/operations/{operation_id}", "/operations/{operation_id}"
    event = with_route(load(shape), "GET", path, resource=resource)
    event["body"] = None
    if shape.startswith("apigw"):
        # A load balancer and a function's address know no routes.
        event["pathParameters"] = {"operation_id": operation_id}
    return event


def accepted(answer: Answer) -> tuple[str, int, str]:
    """Status, seconds to wait and operation of a 202, after checking its form."""
    body, headers = json.loads(answer["body"]), headers_of(answer)
    assert answer["statusCode"] == 202
    assert set(body) == {"operation_id", "status", "retry_after_s"}
    assert headers["location"] == f"/operations/{body['operation_id']}"
    assert headers["retry-after"] == str(body["retry_after_s"])
    assert headers["content-type"] == "application/json"
    return body["status"], body["retry_after_s"], body["operation_id"]


def shown(answer: Answer) -> dict[str, Any]:
    """The body of a 200 of an operation's status, after checking its form."""
    assert answer["statusCode"] == 200
    assert headers_of(answer)["content-type"] == "application/json"
    assert headers_of(answer)["cache-control"] == "no-store"
    body: dict[str, Any] = json.loads(answer["body"])
    return body


@contextlib.contextmanager
def accepting_at(place: str) -> Iterator[Callable[..., Accepting]]:
    """What makes a service of given options in this place, "memory" or "moto"."""
    if place == "memory":
        yield Accepting
        return
    with recorded_world() as world:
        yield partial(TableAccepting, world)


class TurnByTurn(FaultyStore):
    """A store whose calls by two threads are made in the order of a schedule, one at a time."""

    def __init__(self, schedule: Sequence[int]) -> None:
        super().__init__()
        self._schedule = list(schedule)
        self._turn = threading.Condition()
        self._waiting: set[int] = set()
        self._done: set[int] = set()
        self._numbers: dict[int, int] = {}
        self._running = -1
        self._refusals: Counter[str] = Counter()

    def refusals(self, call: str) -> int:
        """How many calls of this kind met a condition that failed."""
        return self._refusals[call]

    def run(self, *workers: Callable[[], object]) -> None:
        """Run both to their ends."""
        threads = [
            threading.Thread(target=self._work, args=(number, worker))
            for number, worker in enumerate(workers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
            assert not thread.is_alive()

    def _work(self, number: int, worker: Callable[[], object]) -> None:
        self._numbers[threading.get_ident()] = number
        self._wait(number)
        try:
            worker()
        finally:
            with self._turn:
                self._done.add(number)
                self._give()

    def _asked(self, call: str, function: Callable[[Any], Any], argument: Any) -> Any:
        number = self._numbers.get(threading.get_ident())
        if number is not None:
            self._wait(number)
        reply = super()._asked(call, function, argument)
        self._refusals[call] += isinstance(reply, Refused)
        return reply

    def _wait(self, number: int) -> None:
        with self._turn:
            self._waiting.add(number)
            self._give()
            assert self._turn.wait_for(lambda: self._running == number, timeout=30)
            self._waiting.discard(number)

    def _give(self) -> None:
        # Nobody is given a turn before everybody stands still.
        if len(self._waiting | self._done) < 2 or not self._waiting:
            self._running = -1
            return
        wanted = self._schedule.pop(0) if self._schedule else min(self._waiting)
        self._running = wanted if wanted in self._waiting else min(self._waiting)
        self._turn.notify_all()
