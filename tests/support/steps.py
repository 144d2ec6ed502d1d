"""Recorded handlers that are scripted step by step, and a store that fails where it is told to."""

from __future__ import annotations

import contextlib
import inspect
import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oncekey import resolver
from oncekey.errors import StoreError
from oncekey.settings import Settings
from oncekey.store.dynamodb.codec import record_from_item
from oncekey.testing.memory import MemoryStore
from tests.support.asking_settler import Settling
from tests.support.dynamodb import items, store_on
from tests.support.events import load
from tests.support.protected import Answer, Protected

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

    from oncekey import Operation, Question
    from oncekey.record.record import Record

POST = load("apigw_http_v2_post")
CREATED: Answer = {"statusCode": 201, "body": "made"}
FAILED: Answer = {"statusCode": 500, "body": "down"}
# Of an invocation of `Steps` with its usual time-out: 10 s, and the margin.
LEASE_MS = 15_000


def noise(size: int) -> bytes:
    """Bytes that no compression makes fewer, the same ones each time."""
    return random.Random(size).randbytes(size)  # noqa: S311 -- no secret


# Results larger than what a record has room for, and than what an item has.
BESIDE = noise(20 * 1024)
IN_THE_BUCKET = noise(500 * 1024)

Action = Callable[["Steps", "Operation"], Any]


class FaultyStore(MemoryStore):
    """A store in memory that loses answers, or is not reached.

    Calls are named by what they ask: a transition's class, with "commit " before it in a
    transaction, or "read", "keep" and "fetch". `asked` lists those that were made.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        # Nothing that a dead process asks for arrives.
        self.is_dead = False
        self._lost: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._denied: set[str] = set()

    def lose(self, call: str, count: int = 1) -> None:
        """Carry out the next `count` calls of this kind, and lose their answers."""
        self._lost[call] = count

    def refuse(self, call: str, count: int = 1) -> None:
        """Do not carry out the next `count` calls of this kind."""
        self._refused[call] = count

    def deny(self, call: str) -> None:
        """Answer calls of this kind that they are not allowed."""
        self._denied.add(call)

    def recovers(self) -> None:
        """From now on nothing fails."""
        self._lost.clear()
        self._refused.clear()
        self._denied.clear()

    def write(self, transition: Any) -> Any:
        """Write, or not."""
        return self._asked(type(transition).__name__, super().write, transition)

    def commit(self, commit: Any) -> Any:
        """Commit, or not."""
        call = f"commit {type(commit.transition).__name__}"
        return self._asked(call, super().commit, commit)

    def read(self, pk: str) -> Any:
        """Read, or not."""
        return self._asked("read", super().read, pk)

    def save(self, blob: Any) -> None:
        """Save, or not."""
        self._asked("save", super().save, blob)

    def fetch(self, at: Any) -> Any:
        """Fetch, or not."""
        return self._asked("fetch", super().fetch, at)

    def _asked(self, call: str, function: Callable[[Any], Any], argument: Any) -> Any:
        if self.is_dead:
            raise StoreError("nobody asks", transient=False)
        self.asked.append(call)
        if call in self._denied:
            raise StoreError("AccessDenied", transient=False)
        if self._refused[call]:
            self._refused[call] -= 1
            raise StoreError("no route to the store", transient=True)
        reply = function(argument)
        if self._lost[call]:
            self._lost[call] -= 1
            raise StoreError("the answer was lost", transient=True)
        return reply


class Dying(FaultyStore):
    """A store whose caller dies once, at the call with this number, before or after it is made."""

    def __init__(self, at: int, *, is_carried_out: bool) -> None:
        super().__init__()
        self._at = at
        self._is_carried_out = is_carried_out

    def _asked(self, call: str, function: Callable[[Any], Any], argument: Any) -> Any:
        if len(self.asked) != self._at:
            return super()._asked(call, function, argument)
        self._at = -1
        self.is_dead = not self._is_carried_out
        reply = super()._asked(call, function, argument)
        self.is_dead = True
        return reply


class Steps(Protected):
    """A handler of recorded effects that does one scripted action after the other.

    `ran` names the functions of steps that ran, `given` has what the steps gave to the handler, and
    `keys` the downstream keys that they showed their provider. `event` is the request.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"effects": "recorded", "store": FaultyStore(), **options})
        self.event = POST
        self.ran: list[str] = []
        self.given: list[Any] = []
        self.keys: list[str] = []

    def handles(self, *actions: Action, ends: Answer | BaseException = CREATED) -> None:
        """From now on, the handler does these and then ends so."""

        def handler(_event: object, op: Operation) -> Answer:
            for action in actions:
                self.given.append(action(self, op))
            if isinstance(ends, BaseException):
                raise ends
            return dict(ends)

        self.then = handler

    def sends(self, *actions: Action, ends: Answer | BaseException = CREATED) -> Answer:
        """One request, whose handler does these and then ends so."""
        self.handles(*actions, ends=ends)
        return self.send(self.event)

    def dies(self, *actions: Action) -> None:
        """One request whose process dies after these, at the latest."""
        with contextlib.suppress(BaseException):
            self.sends(*actions, dead)
        self.store.is_dead = False

    def another_sandbox(self, *, ahead_ms: int = 0, **options: Any) -> Steps:
        """The same handler on the same store, by a clock that is ahead so much."""
        other = Steps(**{"store": self.store, **options})
        other.clock.advance(self.clock.now_ms() - other.clock.now_ms() + ahead_ms)
        for _ in range(1000):
            # Each clock counts the owners that it draws, and no two may draw the same.
            other.clock.new_owner()
        return other

    def lets_the_lease_run_out(self) -> None:
        """Nobody can be at work under any lease that was taken until now."""
        self.clock.advance(LEASE_MS + 1)

    @property
    def record(self) -> Record:
        """The only record."""
        (record,) = self.store.records.values()
        found: Record = record
        return found


def step(
    name: str,
    gives: Any = None,
    *,
    raises: BaseException | None = None,
    is_idempotent: bool = False,
    then: Callable[[Steps], object] = lambda _service: None,
) -> Action:
    """Do a step whose function shows its provider a key, does `then` and ends so."""

    def action(service: Steps, op: Operation) -> Any:
        def function() -> Any:
            service.ran.append(name)
            service.keys.append(op.downstream_key(name))
            then(service)
            if raises is not None:
                raise raises
            return gives

        return op.step(name, function, idempotent=is_idempotent)

    return action


def commit(name: str, *, writes: int = 1) -> Action:
    """Commit so many business writes, whose items bear the name and the attempt."""

    def action(_service: Steps, op: Operation) -> None:
        for number in range(writes):
            op.transaction.put("rides", {"id": f"{name}-{number}", "attempt": op.attempt})
        op.commit(name)

    return action


def caught(action: Action, *kinds: type[BaseException]) -> Action:
    """Do `action` and go on after what it raises of these kinds, which is what it gives."""
    kinds = kinds or (Exception,)

    def catching(service: Steps, op: Operation) -> Any:
        try:
            return action(service, op)
        except kinds as error:
            return error

    return catching


def dead(service: Steps, *_: object) -> None:
    """The process dies here: nothing that it still asks for arrives."""
    service.store.is_dead = True


def waits(duration_ms: int) -> Action:
    """Let time pass."""
    return lambda service, _op: service.clock.advance(duration_ms)


def meanwhile(other: Steps, *actions: Action, ends: Answer | BaseException = CREATED) -> Action:
    """The same request reaches another sandbox, whose handler does these; its answer is given."""
    return lambda _service, _op: other.sends(*actions, ends=ends)


class TableSteps(Steps):
    """The same on the idempotency table of `client`."""

    def __init__(
        self, client: DynamoDBClient, bucket: S3Client | None = None, **options: Any
    ) -> None:
        store = store_on(client, bucket)
        # The store thinks of the client's own long time-outs; nothing takes time here.
        store._call_timeout_ms = 0
        super().__init__(store=store, **options)
        self._client = client

    @property
    def record(self) -> Record:
        """The only record in the table, whatever is kept beside it."""
        (item,) = [item for item in items(self._client) if "status" in item]
        return record_from_item(item)


def settler(service: Steps, **settings: Any) -> Settling:
    """Who settles on the service's store, by its clock."""
    return Settling(store=service.store, clock=service.clock, settings=Settings(**settings))


def finds(*answers: Any) -> list[Question]:
    """Declare a resolver that answers these in turn, by calling them if they are functions.

    Returns what it was asked.
    """
    asked: list[Question] = []

    @resolver("POST /payments", "charge")
    def ask(question: Question) -> Any:
        asked.append(question)
        answer = answers[min(len(asked), len(answers)) - 1]
        return answer() if inspect.isfunction(answer) else answer

    return asked


def raises(error: BaseException) -> Callable[[], Any]:
    """An answer that is raised."""

    def answer() -> Any:
        raise error

    return answer
