"""The actors of a whole service: clients in sandboxes, relays, workers, reconcilers, people."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from oncekey.engine.engine import attempt
from oncekey.engine.job import TOPIC, Job, job_message_in
from oncekey.engine.job_begin import begin
from oncekey.engine.operation_options import OperationOptions
from oncekey.engine.request import Request
from oncekey.engine.reservation import reserve
from oncekey.engine.store_state import StoreState
from oncekey.errors import NotExecuted
from oncekey.flow.retry import few_tries
from oncekey.outbox.envelope import unsealed
from oncekey.outbox.inbox import with_payload
from oncekey.record.identity import Identity
from oncekey.record.outcome import Reason, Refusal
from oncekey.record.record import Effects
from oncekey.webhooks.acceptance import Receipt, accept_unless_paused, collected, completed_record
from oncekey.webhooks.delivery import Publish
from tests.simulation.actors import IDENTITY, Actor
from tests.simulation.recorded_handler import with_handler
from tests.simulation.scenario import CALL_TIMEOUT_MS, Caller
from tests.simulation.system_settlers import SERVERS, Serving
from tests.simulation.workers import TIMED_OUT
from tests.support.replacing import replace

if TYPE_CHECKING:
    from oncekey.flow.commands import Flow
    from oncekey.record.message import Message
    from oncekey.record.outcome import Outcome
    from oncekey.settings import Settings
    from oncekey.store.due_index import OpenRecords
    from tests.simulation.system import Service

EVENTS = "POST /events"
CONSUMER = "consumer"
# The time of a relay's, a reconciler's or an operator's run.
SERVING_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Client(Caller):
    """One request of a tenant under a key, to a sandbox. It `is_queued` for a worker, or not."""

    tenant: str = "tenant"
    key: str = IDENTITY.key
    sandbox: str = ""
    is_queued: bool = False

    @property
    def identity(self) -> Identity:
        """Whose key it is."""
        return Identity(tenant=self.tenant, operation=IDENTITY.operation, key=self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker(Caller):
    """An invocation of the worker: it takes the visible message of this number."""

    takes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender(Caller):
    """A delivery of an event of a provider, to the service's webhook."""

    event: str = "event-1"
    tenant: str = "tenant"


def consumer_of(message: Message) -> Identity:
    """The key under which a message is consumed: its id."""
    return Identity(tenant=message.tenant, operation=CONSUMER, key=message.id)


class Sandbox:
    """What one sandbox keeps from one invocation to the next."""

    def __init__(self) -> None:
        self.state = StoreState(call_timeout_ms=CALL_TIMEOUT_MS)
        self._options: dict[Any, OperationOptions] = {}

    def options(
        self, effects: Effects, settings: Settings, *, is_queued: bool, local_cache: int = 0
    ) -> OperationOptions:
        """The options of a handler in this sandbox, with its memory of answers."""
        name = (effects, is_queued, local_cache)
        if name not in self._options:
            self._options[name] = OperationOptions(
                effects=effects,
                settings=settings,
                is_not_executed=lambda error: isinstance(error, NotExecuted),
                is_queued=is_queued,
                local_cache=local_cache,
            )
        return self._options[name]


@dataclass(slots=True)
class ServiceActor(Actor):
    """Anybody who takes part in a service. `is_old`: it runs the release before."""

    # It is set before the actor begins.
    service: Service | None = None
    identity: Identity = IDENTITY
    is_old: bool = False
    took: Any = None

    @property
    def may_fail(self) -> bool:
        """See `Actor.may_fail`. A webhook answers 503 then, and the event is sent again."""
        return self.caller is None or isinstance(self.caller, Sender)

    def open(self, store: OpenRecords) -> None:
        """Make the flow."""
        caller, service = self.caller, self.service
        assert service is not None
        self.is_old = service.is_old
        remaining_ms = SERVING_MS if caller is None else caller.remaining_ms
        self.until_ms = self.clock.now_ms() - self.clock.skew_ms + remaining_ms
        match caller:
            case Client():
                self.identity = caller.identity
                self._attempt(store, caller, is_queued=caller.is_queued, sandbox=caller.sandbox)
            case Worker():
                self._work(store, caller, service)
            case Sender():
                self.flow = self._accept(store, caller, service)
            case _:
                self._serve(store, service)

    def _attempt(
        self,
        store: OpenRecords,
        caller: Caller,
        *,
        is_queued: bool,
        sandbox: str = "",
        reserving: Any = reserve,
    ) -> None:
        assert self.service is not None
        job: Job | None = None
        kept = self.service.sandbox(sandbox or self.name)
        caches = isinstance(caller, Client) and self.service.caches
        if isinstance(caller, Client) and is_queued:
            job = Job(event=json.dumps({"body": caller.body}, separators=(",", ":")))
        request = Request(
            identity=self.identity,
            fingerprint=self.fingerprint,
            options=kept.options(
                caller.effects, self.settings, is_queued=is_queued, local_cache=8 * caches
            ),
            store_state=kept.state,
            deadline_ms=self.clock.now_ms() + caller.remaining_ms,
            job=job,
            timed_out=TIMED_OUT if is_queued else None,
        )
        flow = attempt(request, self.clock, reserving=reserving, raised=self._result_of)
        self.flow = self._with_handler(flow, store, caller)

    def _with_handler(self, flow: Flow[Outcome], store: OpenRecords, caller: Caller) -> Any:
        if caller.effects is not Effects.RECORDED:
            return flow
        return with_handler(flow, lambda invoke: self._begun(invoke, store))

    def _work(self, store: OpenRecords, caller: Worker, service: Service) -> None:
        """Take a message: a job is carried out, any other is consumed once, by its id."""
        taken = service.queue.receive(caller.takes)
        if taken is None:
            self.flow = _nothing()
            return
        message = unsealed(taken.body)
        self.took = taken
        if message.topic == TOPIC:
            self._work_on_job(store, caller, message, service)
            return
        # Whoever consumes messages is written for repeats: it has one effect for each id.
        self.identity = consumer_of(message)
        self.caller = replace(caller, effects=Effects.UNRECORDED, body=message.id)
        self._attempt(store, self.caller, is_queued=False)

    def _work_on_job(
        self, store: OpenRecords, caller: Worker, message: Message, service: Service
    ) -> None:
        job = job_message_in(with_payload(message, message.payload).payload, message.operation_id)
        client = service.client_of(job.pk)
        self.identity = client.identity
        body = job.event["body"]
        self.caller = replace(caller, effects=client.effects, body=body)
        self._attempt(store, self.caller, is_queued=True, reserving=partial(begin, job))

    async def _accept(self, store: OpenRecords, caller: Sender, service: Service) -> Receipt:
        """What the decorator of a webhook does once the signature is found to be right."""
        self.identity = Identity(tenant=caller.tenant, operation=EVENTS, key=caller.event)
        clock, kept = self.clock, service.sandbox("webhook")
        record = completed_record(
            self.identity,
            clock,
            operation_id=clock.new_operation_id(),
            owner=clock.new_owner(),
            retention_s=self.settings.retention_s,
        )
        publish = Publish(topic="provider.event", payload={"event": caller.event})
        budget = few_tries(clock.now_ms(), CALL_TIMEOUT_MS)
        messages = collected(publish, record, store)
        return await accept_unless_paused(
            record, messages, self.settings, kept.state, budget, clock
        )

    def _serve(self, store: OpenRecords, service: Service) -> None:
        serving = Serving(
            pk="",
            name=self.name,
            clock=self.clock,
            settings=self.settings,
            store=store,
            service=service,
        )
        self.flow = SERVERS[self.name.partition("-")[0]](serving)


async def _nothing() -> Outcome:
    return Refusal(reason=Reason.SUPERSEDED)
