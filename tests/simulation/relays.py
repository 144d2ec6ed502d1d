"""A simulated outbox: relays on its stream and sweeps, their real flows, and all that goes wrong.

Lambda delivers a batch of the stream again from the lowest failure on, and all of it to a new
sandbox if the relay was killed. A schedule makes one move after the other.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.errors import StoreError
from oncekey.outbox.relay import OutboxRelay
from oncekey.outbox.relay_commands import ReadPage, Send
from oncekey.outbox.sweep import OutboxSweep
from oncekey.testing.memory import ManualClock
from tests.simulation.scenario import Kind, Move
from tests.simulation.story import Violation
from tests.support.memory_outbox import WEEK_MS, MemoryOutbox, failed_of, stream_of
from tests.support.strict_sqs import StrictSqs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from oncekey.flow.commands import Flow
    from oncekey.record.message import Message

FAULTS = (Kind.LOSE, Kind.FAIL, Kind.BREAK, Kind.DELAY, Kind.KILL)
# How often Lambda delivers a batch in a run; the sweep has the rest.
_MOST_DELIVERIES = 3
# A message that is always refused is set aside at the fifth refusal; then it is escalated.
_MOST_SWEEPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayScenario:
    """Which messages wait, who sends them, and what may go wrong, how often.

    `batches` are the numbers of the messages in each relay's batch of the stream. `refused` are the
    ids that the queue refuses at every try, each with the reason.
    """

    messages: tuple[Message, ...]
    batches: Mapping[str, tuple[int, ...]]
    sweeps: tuple[str, ...] = ()
    is_fifo: bool = False
    refused: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[Kind, ...] = FAULTS
    most_faults: int = 1


@dataclass(slots=True)
class Sender:
    """A relay or a sweep, and where its flow stands. A sweep has no `batch`."""

    name: str
    batch: Sequence[Message] | None
    relay: OutboxRelay
    flow: Flow[Any] | None = None
    command: Any = None
    deliveries: int = 0
    is_over: bool = False
    trace: int = 0


class RelayWorld:
    """One run of a scenario."""

    def __init__(self, scenario: RelayScenario) -> None:
        self.scenario = scenario
        self.clock = ManualClock()
        self.table = MemoryOutbox(*scenario.messages)
        self.sqs = StrictSqs(fifo=scenario.is_fifo, refuses_whole=False)
        self.sqs.refuses = self._refusal
        self.escalations = StrictSqs()
        self.faults_left = scenario.most_faults
        self.under_way: list[Any] = []
        self.violation: Violation | None = None
        batches = scenario.batches.items()
        self.senders = {name: self._relay(name, numbers) for name, numbers in batches}
        for name in scenario.sweeps:
            self.add_sweep(name)

    def add_sweep(self, name: str) -> None:
        """One more sweep."""
        self.senders[name] = Sender(name, None, self._sandbox())

    def moves(self) -> list[Move]:
        """Every move that is possible now; none once every sender has come to its end."""
        active = [each for each in self.senders.values() if not each.is_over]
        if not active:
            return []
        found = [Move(Kind.STEP, each.name) for each in active]
        found += [Move(Kind.LAND, "", str(number)) for number in range(len(self.under_way))]
        if self.faults_left:
            found += [
                Move(kind, each.name) for each in active for kind in self._faults(each.command)
            ]
        return found

    def take(self, move: Move) -> None:
        """Make one move."""
        if move.kind is Kind.LAND:
            self._carry_out(self.under_way.pop(int(move.detail)))
            return
        sender = self.senders[move.actor]
        if move.kind is Kind.STEP:
            self._step(sender)
        else:
            self.faults_left -= 1
            self._fail(sender, move.kind)

    def state(self) -> int:
        """A digest: from equal states, equal moves lead to equal runs."""
        table = self.table
        return hash(
            (
                tuple(table.messages),
                tuple(sorted(table.tries.items())),
                tuple(sorted(table.aside)),
                tuple(sorted(table.told)),
                tuple(dict.fromkeys(self.sqs.ids)),
                tuple(sorted(self.escalated)),
                tuple((each.trace, each.is_over) for each in self.senders.values()),
                tuple(sorted(map(hash, self.under_way))),
                self.faults_left,
                self.violation is None,
            )
        )

    @property
    def escalated(self) -> set[str]:
        """The ids of the messages that the escalation queue was told of."""
        return {json.loads(body)["message_id"] for body in self.escalations.bodies}

    def heal(self) -> None:
        """End all faults; nothing is under way any more. Each sender comes to its end."""
        self.under_way = []
        self.faults_left = 0
        for sender in self.senders.values():
            while not sender.is_over:
                self._step(sender)

    def _refusal(self, body: str) -> str | None:
        refused = self.scenario.refused.items()
        return next((code for each, code in refused if f'"{each}"' in body), None)

    def _sandbox(self) -> OutboxRelay:
        return OutboxRelay(table=self.table, queue=self.sqs.queue, clock=self.clock)

    def _relay(self, name: str, numbers: Sequence[int]) -> Sender:
        batch = [self.scenario.messages[number] for number in numbers]
        return Sender(name, batch, self._sandbox())

    def _faults(self, command: Any) -> Iterator[Kind]:
        if command is None:
            return
        for kind in self.scenario.faults:
            # A read that is lost or late is no more than one that failed.
            if isinstance(command, ReadPage) and kind not in {Kind.FAIL, Kind.KILL}:
                continue
            if kind is Kind.BREAK and not isinstance(command, Send):
                continue
            yield kind

    def _step(self, sender: Sender) -> None:
        if sender.command is None:
            sender.flow = self._flow(sender)
            self._go_on(sender, None)
        else:
            self._go_on(sender, self._carry_out(sender.command))

    def _flow(self, sender: Sender) -> Flow[Any]:
        if sender.batch is not None:
            sender.deliveries += 1
            return sender.relay.relay_flow(stream_of(sender.batch), _always)
        sweep = OutboxSweep(relay=sender.relay)
        return sweep.sweep_flow(
            before_ms=WEEK_MS, is_time_left=_always, escalations=self.escalations.queue
        )

    def _carry_out(self, command: Any) -> Any:
        reply = command.carry_out()
        lost = self.scenario_ids - set(self.table.messages) - set(self.sqs.ids)
        if lost and self.violation is None:
            self.violation = Violation(f"{sorted(lost)} left the table and no queue has it", ())
        return reply

    @property
    def scenario_ids(self) -> set[str]:
        """The ids of all messages."""
        return {message.id for message in self.scenario.messages}

    def _fail(self, sender: Sender, kind: Kind) -> None:
        command = sender.command
        if kind is Kind.BREAK:
            # The queue takes all but the first, for a reason of its own.
            self.sqs.happens = lambda ids: {ids[0]: "InternalError"}
            reply = self._carry_out(command)
            self.sqs.happens = lambda _ids: None
            self._go_on(sender, reply)
            return
        if kind is Kind.LOSE:
            self._carry_out(command)
        elif kind in {Kind.DELAY, Kind.KILL} and not isinstance(command, ReadPage):
            self.under_way.append(command)
        if kind is Kind.KILL:
            sender.relay = self._sandbox()
            self._delivered(sender, sender.batch or ())
        else:
            self._go_on(sender, StoreError(f"simulated: {kind}", transient=True))

    def _delivered(self, sender: Sender, failed: Sequence[Message]) -> None:
        """The invocation is over. Lambda delivers what failed again, in a stream's order."""
        sender.trace = hash((sender.trace, "over", tuple(each.id for each in failed)))
        sender.command = None
        if sender.batch is None or not failed or sender.deliveries >= _MOST_DELIVERIES:
            sender.is_over = True
        else:
            sender.batch = failed

    def _go_on(self, sender: Sender, reply: Any) -> None:
        flow = sender.flow
        assert flow is not None
        sender.trace = hash((sender.trace, _digest(reply)))
        try:
            is_error = isinstance(reply, StoreError)
            sender.command = flow.throw(reply) if is_error else flow.send(reply)
        except StopIteration as end:
            self._delivered(sender, _from_the_lowest(sender.batch, end.value))
        except StoreError:
            # A sweep that could not read: the next run of the reconciler begins anew.
            assert sender.batch is None
            self._delivered(sender, ())


def _from_the_lowest(batch: Sequence[Message] | None, answer: Any) -> Sequence[Message]:
    if batch is None:
        return ()
    failed = [int(each) - 900 for each in failed_of(answer)]
    return batch[min(failed) :] if failed else ()


def _digest(reply: Any) -> object:
    if isinstance(reply, set):
        return tuple(sorted(reply))
    return repr(reply)


def _always() -> bool:
    return True


def judge_relays(world: RelayWorld) -> Violation | None:
    """The verdict on a run that is over, after all was well and sweeps have run."""
    world.heal()
    for number in range(_MOST_SWEEPS):
        world.add_sweep(f"sweep-again-{number}")
        world.heal()
    return world.violation or next(_faults_of(world), None)


def _faults_of(world: RelayWorld) -> Iterator[Violation]:
    refused = set(world.scenario.refused)
    aside = set(world.table.aside)
    if aside - refused:
        yield Violation(f"{sorted(aside - refused)} was set aside, and the queue takes it", ())
    waits = set(world.table.messages) - aside
    if waits:
        yield Violation(f"{sorted(waits)} is never sent and never set aside", ())
    untold = aside - world.escalated
    if untold:
        yield Violation(f"{sorted(untold)} was set aside, and nobody is told", ())
    if world.scenario.is_fifo:
        first = list(dict.fromkeys(world.sqs.ids))
        for tenant in {message.tenant for message in world.scenario.messages}:
            ids = [each.id for each in world.scenario.messages if each.tenant == tenant]
            sent = [each for each in first if each in ids]
            if sent != sorted(sent):
                yield Violation(f"the order of {tenant}'s messages is not kept: {sent}", ())
