"""Accepted requests whose processes are killed, one after the other, and what they come to."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import boto3

from tests.support.forked_processes import connection
from tests.support.kill_stories import KEY, told
from tests.support.killed_functions import BUSINESS_TABLE
from tests.support.killed_process import OUTBOX_TABLE, RECORDS_TABLE, World, world_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from mypy_boto3_sqs import SQSClient

    from tests.support.forked_processes import Run
    from tests.support.killed_process import Item
    from tests.support.tripwire import Stop

# Nobody needs more, whatever dies once or twice.
_MOST_RUNS = 16
# A worker has an hour to begin.
_TOO_LATE_MS = 2 * 3_600_000


@dataclass
class JobsWorld(World):
    """The same world with the outbox's stream and a queue.

    `stream` has what no relay has acknowledged, `messages` every message that was ever in the
    outbox, by its id. The queue delivers what is not acknowledged again at once.
    """

    stream: list[Item] = field(default_factory=list)
    messages: dict[str, Any] = field(default_factory=dict)
    queue: str = ""
    queues: int = 0

    def forget(self) -> None:
        """See `World.forget`; the queue is another."""
        super().forget()
        # SQS empties a queue once a minute at most.
        self.queues += 1
        name = f"jobs-{self.queues}"
        made = self._sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "0"})
        self.queue = made["QueueUrl"]
        self.stream.clear()
        self.messages.clear()

    def take_turn(self, what: str, handler: str, stop: Stop | None) -> Run:
        """One process, and what it has left."""
        order: Item = {"handler": handler, "key": KEY, "holds_clock": False, "what": what}
        order |= {"queue": self.queue, "stream": self.stream}
        run = self.forks.start(what, order, stop)
        if what == "relay" and run.ended == "exit 0":
            assert run.answer == {"batchItemFailures": []}
            self.stream.clear()
        for item in self._dynamodb.scan(TableName=OUTBOX_TABLE, ConsistentRead=True)["Items"]:
            if item["id"]["S"] not in self.messages:
                number = str(len(self.messages) + 1)
                change = {"NewImage": item, "SequenceNumber": number}
                self.stream.append({"eventName": "INSERT", "dynamodb": change})
                self.messages[item["id"]["S"]] = json.loads(item["payload"]["S"])
        return run

    @property
    def queued(self) -> int:
        """How many messages wait in the queue."""
        name: Any = "ApproximateNumberOfMessages"
        asked = self._sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=[name])
        return int(asked["Attributes"][name])

    @cached_property
    def _sqs(self) -> SQSClient:
        client: SQSClient = boto3.client("sqs", **connection(self.store_url))
        return client


def jobs_world() -> AbstractContextManager[JobsWorld]:
    """Servers and the parent of the processes; all end with the block."""
    return world_of(JobsWorld, "tests.support.async_child")


@dataclass(frozen=True)
class JobStory:
    """An accepted request: the processes that it took, and what it has come to.

    `messages` are the payloads of all that told workers of it, `queued` how many are still there.
    """

    runs: list[Run]
    came_to: dict[str, Any]
    operation_id: str
    messages: list[Item]
    queued: int
    charge_calls: int

    @property
    def calls(self) -> list[tuple[str, tuple[str, ...]]]:
        """Whose turn it was, and the calls that were made."""
        return [(run.what, run.calls) for run in self.runs]

    @property
    def keys(self) -> set[str]:
        """Every idempotency key that the provider was shown."""
        return {key for run in self.runs for key in run.keys}

    @property
    def downstream_key(self) -> str:
        """The one key that it should be shown, as it is defined."""
        return str(uuid.uuid5(uuid.UUID(self.operation_id), "charge"))


@dataclass(frozen=True)
class Plot:
    """How a story goes: who comes `first` after a death, the `client` or what is in the `queue`.

    With `is_late` what is accepted is left until it is too late to begin.
    """

    handler: str
    first: str
    is_late: bool = False

    def play(self, world: JobsWorld, stops: Mapping[int, Stop]) -> JobStory:
        """One request in an empty world, from the first try until all is done with.

        Each death is noticed only when every lease is over.
        """
        world.forget()
        runs: list[Run] = []
        is_disturbed = False
        with told(stops):
            while not _is_over(world, runs):
                assert len(runs) < _MOST_RUNS, [(run.what, run.calls) for run in runs]
                stop = stops.get(len(runs))
                what = self._next(world, runs, is_disturbed=is_disturbed)
                run = world.take_turn(what, self.handler, stop)
                runs.append(run)
                ended = (run.ended, *run.last_moment[:2]) if stop else run.ended
                assert ended == (("SIGKILL", stop.when, stop.number) if stop else "exit 0")
                is_disturbed = stop is not None
                if is_disturbed:
                    world.later()
                if self.is_late and [_is_accepted(each) for each in runs] == [True]:
                    is_disturbed = True
                    world.later(_TOO_LATE_MS)
                check_what_is_left(world)
            return _told(world, runs)

    def _next(self, world: JobsWorld, runs: list[Run], *, is_disturbed: bool) -> str:
        if is_disturbed and self.first == "client":
            return "invoke"
        if world.stream:
            return "relay"
        return "work" if world.queued and not _is_stuck(runs) else "invoke"


def _is_over(world: JobsWorld, runs: list[Run]) -> bool:
    requests = [run for run in runs if run.what == "invoke"]
    last = requests[-1] if requests else None
    if last is None or last.ended != "exit 0" or _is_accepted(last):
        return False
    return not world.stream and (not world.queued or _is_stuck(runs))


def _is_accepted(run: Run) -> bool:
    return run.what == "invoke" and run.ended == "exit 0" and run.answer["statusCode"] == 202


def _is_stuck(runs: list[Run]) -> bool:
    """Whether the queue's message waits for somebody to settle what is in doubt."""
    worked = [run for run in runs if run.what == "work"]
    return bool(worked) and worked[-1].ended == "exit 0" and worked[-1].answer == "OutcomeUnknown"


def check_what_is_left(world: JobsWorld) -> None:
    """Whatever has died: a record, its pointer and its message are there together, or none is.

    With the completion there is the whole business item, without it nothing of it.
    """
    items = world.items(RECORDS_TABLE)
    records = [item for item in items if "status" in item]
    pointers = {item["pk"] for item in items if item["pk"].startswith("op#")}
    assert pointers == {f"op#{record['operation_id']}" for record in records}
    owners = [payload["owner"] for payload in world.messages.values()]
    assert bool(owners) == bool(records)
    assert len(set(owners)) == len(owners)
    for record in records:
        assert record["status"] != "PENDING" or record["owner"] == owners[-1]
    is_done = [record["status"] for record in records] == ["COMPLETED"]
    assert len(world.items(BUSINESS_TABLE)) <= is_done


def _told(world: JobsWorld, runs: list[Run]) -> JobStory:
    """What was come to, with names in place of the ids that chance has given."""
    record = world.record()
    intents = world.provider.payment_intents()
    answer = next(run.answer for run in reversed(runs) if run.what == "invoke")
    facts = {
        "record": [record["status"], sorted(record.get("steps", {}).get("finished", {}))],
        "answer": [answer["statusCode"], json.loads(answer["body"])],
        "business": world.items(BUSINESS_TABLE),
        "charges": [[intent["status"], intent["id"]] for intent in intents],
    }
    text = json.dumps(facts, default=int)
    for intent in intents:
        text = text.replace(intent["id"], "id of charge")
    return JobStory(
        runs=runs,
        came_to=json.loads(text.replace(record["operation_id"], "id of operation")),
        operation_id=record["operation_id"],
        messages=list(world.messages.values()),
        queued=world.queued,
        charge_calls=world.provider.counts()["calls"],
    )
