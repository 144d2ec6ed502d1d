"""A reconciler beside a protected handler: its runs, who is asked, and who is told."""

from __future__ import annotations

import contextlib
import inspect
import json
from typing import TYPE_CHECKING, Any

from oncekey import resolver
from oncekey.errors import StoreError
from oncekey.reconciler.reconciler import Reconciler
from oncekey.reconciler.settings import ReconcilerSettings
from oncekey.store.sqs import Entry, Rejected, SqsQueue
from tests.support.events import with_key
from tests.support.steps import POST, FaultyStore, Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oncekey import Question
    from oncekey.reconciler.report import Report
    from tests.support.protected import Answer

GRACE_MS = 60_000
PAID: Answer = {"statusCode": 201, "body": '{"id":"ch_1"}'}
RUN_MS = 50_000


class Escalations(SqsQueue):
    """The queue that tells a person. `happens` is called for each sending, and may raise."""

    def __init__(self) -> None:
        super().__init__("https://sqs.example/escalations")
        self.bodies: list[dict[str, Any]] = []
        self.is_down = False
        self.loses_answers = False
        self.rejects = False
        self.happens: Callable[[], object] = lambda: None

    def send(self, entries: Sequence[Entry]) -> list[Rejected]:
        """See `SqsQueue.send`."""
        self.happens()
        if self.is_down:
            raise StoreError("no route to the queue", transient=True)
        if self.rejects:
            return [Rejected(each.id, "InternalError", is_final=False) for each in entries]
        self.bodies += [json.loads(each.body) for each in entries]
        if self.loses_answers:
            raise StoreError("the answer was lost", transient=True)
        return []


class Unrecorded(Steps):
    """A handler of effects that are not recorded, beside its reconciler.

    `charges` are the keys that a provider has been shown, `escalations` what a person was told.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"effects": "unrecorded", "store": FaultyStore(), **options})
        self.charges: list[str] = []
        self.escalations = Escalations()

    def charge(self, _service: Steps, op: Any) -> str:
        """An action: pay through a provider that keeps the key."""
        self.charges.append(op.downstream_key("charge"))
        return "ch_1"

    def fails(self, key: str | None = None) -> None:
        """A request that pays and then raises: nobody knows what became of it."""
        self.event = POST if key is None else with_key(POST, key)
        with contextlib.suppress(TimeoutError):
            self.sends(self.charge, ends=TimeoutError())

    def is_killed(self, key: str | None = None) -> None:
        """A request whose process is killed after it has paid."""
        self.event = POST if key is None else with_key(POST, key)
        self.dies(self.charge)

    def reconciles(self, **options: Any) -> Report:
        """A run of the reconciler, once something is due."""
        return reconciles(self, **{"escalations": self.escalations, **options})


def wait_until_due(service: Any) -> None:
    """Let the time pass until the first record is due that is not yet."""
    due = [each.due.at_ms for each in service.store.records.values() if each.due is not None]
    if due:
        service.clock.advance(max(0, min(due) + 1 - service.clock.now_ms()))


def reconciler(service: Any, *, max_attempts: int = 10, **options: Any) -> Reconciler:
    """A reconciler on the service's store, by its clock."""
    turns = options.pop("turns", None) or ReconcilerSettings(max_attempts=max_attempts)
    return Reconciler(store=service.store, clock=service.clock, turns=turns, **options)


def reconciles(
    service: Any, *, lasts_ms: int = RUN_MS, waits: bool = True, **options: Any
) -> Report:
    """A run of a reconciler, once something is due."""
    if waits:
        wait_until_due(service)
    return reconciler(service, **options).run(service.clock.now_ms() + lasts_ms)


def knows(*answers: Any, operation: str = "POST /payments") -> list[Question]:
    """Declare a resolver of the whole operation that answers these in turn, calling functions.

    Returns what it was asked.
    """
    asked: list[Question] = []

    @resolver(operation)
    def ask(question: Question) -> Any:
        asked.append(question)
        answer = answers[min(len(asked), len(answers)) - 1]
        return answer() if inspect.isfunction(answer) else answer

    return asked


def counts(report: Report) -> dict[str, int]:
    """The numbers of a run that are not nothing."""
    numbers = {name: getattr(report, name) for name in report.__slots__ if name != "is_complete"}
    return {name: number for name, number in numbers.items() if number}
