"""What a call costs in DynamoDB's units, by the sizes of its items. The documentation says so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import ConfigurationError
from oncekey.outbox.envelope import sealed
from oncekey.outbox.inbox import delivered
from oncekey.queued.jobs import Jobs
from oncekey.record.record import Status
from oncekey.store.dynamodb.outbox import message_from_item
from tests.benchmarks.units import Units
from tests.support.dynamodb import TABLE
from tests.support.events import load, with_key
from tests.support.metered import Meter
from tests.support.protected import Protected, while_running
from tests.support.recorded import LEDGER, OUTBOX, WITHOUT_END, World, recorded_world
from tests.support.steps import CREATED, noise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oncekey import Operation
    from tests.support.protected import Answer

POST = load("apigw_http_v2_post")
# An answer of 20 KB, which compresses to half of it.
LARGE = {"statusCode": 201, "body": json.dumps({"rows": noise(10 * 1024).hex()})}


@pytest.fixture
def world() -> Iterator[World]:
    """The tables."""
    with recorded_world() as world:
        yield world


@pytest.fixture
def meter(world: World) -> Meter:
    """What the calls of a test cost."""
    return Meter(world.client, {TABLE: "pk", OUTBOX: "id", LEDGER: "id"})


def service(world: World, **options: Any) -> Protected:
    """A handler on the tables."""
    return Protected(store=world.store(), **options)


def spent_on(meter: Meter, action: Callable[[], object]) -> Units:
    """The units of `action`."""
    meter.take()
    action()
    return meter.take()


def test_a_first_call_and_its_duplicates(world: World, meter: Meter) -> None:
    """A first call costs two writes, and two more in and out of the index; a duplicate costs one.

    Red when a record outgrows the kilobyte that one unit covers.
    """
    payments = service(world)

    def again() -> Units:
        return spent_on(meter, lambda: payments.send(POST))

    assert again() == Units(write=2, index=2)
    assert again() == Units(write=1)
    another = with_key(POST, "another-key-0123456789")
    assert while_running(payments, another, again) == Units(write=1)
    assert len(payments.runs) == 2


def test_a_duplicate_of_a_large_answer_costs_one_write_unit(world: World, meter: Meter) -> None:
    """The answer is in a second item, which only a replay reads.

    Red when a large answer is stored in the record: each duplicate would pay for all of it.
    """
    payments = service(world)
    payments.then = lambda _event, _op: LARGE

    assert spent_on(meter, lambda: payments.send(POST)) == Units(write=2 + 12, index=2)
    assert spent_on(meter, lambda: payments.send(POST)) == Units(write=1, read=3)


def test_a_business_write_and_a_message_are_paid_twice(world: World, meter: Meter) -> None:
    """A transaction pays twice for the record, the row and the message; a duplicate costs one."""
    payments = service(world, effects="recorded")

    def then(_event: Any, op: Operation) -> Answer:
        op.transaction.put(LEDGER, {"id": "payment-1", "amount": 12})
        op.outbox.publish("payment.created", {"id": "payment-1"})
        return CREATED

    payments.then = then

    assert spent_on(meter, lambda: payments.send(POST)) == Units(write=1 + 2 * 3, index=2)
    assert spent_on(meter, lambda: payments.send(POST)) == Units(write=1)


@pytest.mark.parametrize(("is_idempotent", "writes"), [(True, 1), (False, 2)])
def test_a_step_costs_one_write_or_two(
    is_idempotent: bool, writes: int, world: World, meter: Meter
) -> None:
    """An idempotent step is written when it has finished, another one before it starts, too."""
    payments = service(world, effects="recorded")

    def then(_event: Any, op: Operation) -> Answer:
        for name in ("quote", "charge", "notify"):
            op.step(name, lambda: {"id": "ch_1"}, idempotent=is_idempotent)
        return CREATED

    payments.then = then

    expected = Units(write=2 + 3 * writes, index=2)
    assert spent_on(meter, lambda: payments.send(POST)) == expected


def test_a_job_costs_its_acceptance_its_message_and_its_work(world: World, meter: Meter) -> None:
    """The request writes the record, the message with its event of 2 KB, and the pointer in one
    transaction. The worker begins and completes the record, which moves in the index and leaves it.
    """
    reports = service(world, mode="queued", operation="POST /reports")

    accepted = spent_on(meter, lambda: reports.send(POST))
    (item,) = world.client.scan(TableName=OUTBOX)["Items"]
    message = delivered(sealed(message_from_item(item)))
    worked = spent_on(meter, lambda: Jobs(reports.handler).perform(message, reports.context()))

    assert accepted == Units(write=2 * (1 + 2 + 1), index=1)
    assert worked == Units(read=1, write=2, index=3)


def test_without_the_index_a_first_call_costs_two_units(
    world: World, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `ONCEKEY_DUE_SHARDS=0` a first call costs its two writes, and is in no index meanwhile.

    Red when a record has a partition of the index all the same.
    """
    monkeypatch.setenv("ONCEKEY_DUE_SHARDS", "0")
    payments = service(world)

    def send() -> Units:
        return spent_on(meter, lambda: payments.send(POST))

    assert send() == Units(write=2)
    assert send() == Units(write=1)


@pytest.mark.parametrize(
    ("effects", "left", "answer"),
    [
        ("unrecorded", Status.UNKNOWN, (409, "outcome-unknown")),
        ("repeatable", Status.COMPLETED, (201, "")),
    ],
)
def test_without_the_index_a_clients_retry_ends_a_dead_attempt(
    effects: str,
    left: Status,
    answer: tuple[int, str],
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the lease, the client's own retry judges a killed attempt as it does with an index."""
    monkeypatch.setenv("ONCEKEY_DUE_SHARDS", "0")
    payments = service(world, effects=effects)

    def killed(_event: Any, _op: Operation) -> Answer:
        world.transport.refuse("UpdateItem", WITHOUT_END)
        raise SystemExit(137)

    payments.then = killed
    with pytest.raises(SystemExit):
        payments.send(POST)
    world.calm()
    payments.clock.advance(60_000)
    payments.then = None

    got = payments.send(POST)

    status, code = answer
    assert got["statusCode"] == status
    assert code in got["body"]
    assert world.record.status is left


@pytest.mark.parametrize(
    "options", [{"effects": "recorded"}, {"mode": "queued", "effects": "repeatable"}]
)
def test_without_the_index_nothing_begins_that_needs_a_reconciler(
    options: dict[str, Any], world: World, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request is refused as a fault of the configuration, and nothing is written."""
    monkeypatch.setenv("ONCEKEY_DUE_SHARDS", "0")

    with pytest.raises(ConfigurationError, match=r"ONCEKEY_DUE_SHARDS is 0.*needs it"):
        service(world, **options).send(POST)

    assert meter.take() == Units()
