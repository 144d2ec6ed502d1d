"""Results of steps: given again as they were, whatever their kind and wherever they are kept."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from infra.service import SERVICE
from oncekey import IETF, STRIPE, Final, InProgress
from oncekey.problem import as_our_refusal, marked
from oncekey.record.record import Status
from oncekey.record.steps import Steps as RecordedSteps
from oncekey.record.stored_answer import NotKept, Place, StoredRef
from tests.support.dynamodb import (
    BUCKET,
    TABLE,
    Recorder,
    dynamodb_table,
    items,
    make_response_bucket,
    write_units,
)
from tests.support.protected import is_replay, problem_of
from tests.support.replacing import replace
from tests.support.result_kinds import (
    Colour,
    Derived,
    Item,
    Level,
    Line,
    Order,
    Pair,
    Point,
    Right,
    same,
)
from tests.support.steps import (
    BESIDE,
    FAILED,
    IN_THE_BUCKET,
    POST,
    Steps,
    TableSteps,
    caught,
    noise,
    step,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

    from oncekey.http.preset import Preset

RESULTS: list[Any] = [
    *(None, 0, False, "", 0.0, (), [], {}, set(), b"", Decimal("0.00"), timedelta()),
    *(True, 1, -(2**70), 0.5, "text", "\ud800", b"\x00\xff", Decimal("1.500"), Decimal("1E+5")),
    *([1, [2]], (1, "2"), {1, 2}, frozenset({"x"}), {1: "one", (2, 3): "two"}, {"$": "no tag"}),
    *(datetime(2026, 1, 1, tzinfo=UTC), timedelta(days=1), UUID(int=7)),
    *(Colour.RED, Level.HIGH, Right.READ | Right.WRITE, Pair(1, Decimal("2.0"))),
    *(Point(1, [2]), Item("a", Decimal("9.90")), Derived(2)),
    Line(sku="a", price=Decimal("1.10")),
    Order(id=1, lines=[Line(sku="b", price=Decimal("2.00"))], at=datetime(2026, 1, 1, tzinfo=UTC)),
]


@dataclass(frozen=True)
class World:
    """A table, a bucket, and a scripted handler on them."""

    table: DynamoDBClient
    bucket: S3Client
    service: Steps

    def companions(self) -> list[dict[str, Any]]:
        """What is kept in the table beside the record."""
        return [item for item in items(self.table) if "status" not in item]

    def objects(self) -> list[str]:
        """The names of what is kept in the bucket."""
        return [
            found["Key"] for found in self.bucket.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        ]

    def loses_what_is_kept(self) -> None:
        """Companions and objects are gone."""
        for item in self.companions():
            self.table.delete_item(TableName=TABLE, Key={"pk": item["pk"]})
        for name in self.objects():
            self.bucket.delete_object(Bucket=BUCKET, Key=name)


@pytest.fixture
def world() -> Iterator[World]:
    """Empty."""
    with dynamodb_table() as table:
        bucket = make_response_bucket()
        yield World(table=table, bucket=bucket, service=TableSteps(table, bucket))


@pytest.mark.requirement("E1")
@pytest.mark.parametrize("result", RESULTS, ids=repr)
def test_a_finished_step_gives_its_result_again(result: Any) -> None:
    """Whatever a step returned, an attempt that resumes is given it, equal and of the same type,
    and so was the first one; the function runs once.

    Red when a result is tested for truth, or loses its type.
    """
    service = Steps()
    service.sends(step("charge", result), ends=FAILED)
    service.sends(step("charge", "another"))

    first, again = service.given
    assert same(first, result)
    assert same(again, result)
    assert service.ran == ["charge"]


def test_dynamodb_gives_every_result_again() -> None:
    """The same of all kinds at once, as the steps of one record."""
    with dynamodb_table() as client:
        service = TableSteps(client)
        steps = [step(f"{number}", each) for number, each in enumerate(RESULTS)]
        service.sends(*steps, ends=FAILED)
        service.sends(*steps)

    assert same(service.given, [*RESULTS, *RESULTS])
    assert len(service.ran) == len(RESULTS)


@pytest.mark.parametrize("preset", [IETF, STRIPE], ids=lambda preset: str(preset.name))
@pytest.mark.parametrize("is_idempotent", [True, False])
def test_the_not_now_of_another_operation_is_no_result_of_a_step(
    preset: Preset, is_idempotent: bool
) -> None:
    """A step that gets it has not ended: harmless to repeat, it runs again; else it is in doubt.

    Red when it is on record as the step's result, and so as the last answer to the handler's key.
    """
    running = marked(preset.refusal("request-in-progress", base=""), "request-in-progress")
    service = Steps()
    first = service.sends(step("pay", running, is_idempotent=is_idempotent), ends=running)
    answer = service.sends(step("pay", "paid", is_idempotent=is_idempotent))

    assert first["statusCode"] == 409
    assert service.given[0] == running
    if is_idempotent:
        assert (answer["statusCode"], service.given[1:]) == (201, ["paid"])
    else:
        assert problem_of(answer)[:2] == (409, "outcome-unknown")
        assert (service.record.status, service.ran) == (Status.UNKNOWN, ["pay"])


def test_a_rule_that_names_in_progress_is_asked_of_a_not_now() -> None:
    """To whom `InProgress` proves that nothing was done, an answer that says so proves it: the mark
    of the step is taken back, and the handler's own answer counts.
    """
    running = marked(IETF.refusal("request-in-progress", base=""), "request-in-progress")
    service = Steps(not_executed=InProgress)

    assert service.sends(step("pay", running))["statusCode"] == 201
    assert (service.record.status, service.record.steps.started) == (Status.COMPLETED, None)


def test_the_acceptance_of_another_operation_is_the_result_of_a_step() -> None:
    """A step that was answered 202 has handed its work over, and does not do so again."""
    accepted = as_our_refusal({"statusCode": 202, "headers": {}, "body": "{}"})
    service = Steps()
    service.sends(step("report", accepted), ends=FAILED)
    answer = service.sends(step("report"))

    assert (answer["statusCode"], service.ran) == (201, ["report"])


def test_what_a_handler_does_to_a_result_does_not_change_what_is_on_record() -> None:
    """The first attempt may do with its result what it likes: it is its own copy."""
    service = Steps()
    own = {"items": [1]}
    service.sends(step("charge", own), ends=FAILED)
    service.given[0]["items"].append(2)
    service.sends(step("charge"))

    assert own == service.given[1] == {"items": [1]}


@pytest.mark.parametrize("result", [BESIDE, IN_THE_BUCKET], ids=["item", "object"])
def test_a_large_result_is_kept_beside_the_record(world: World, result: bytes) -> None:
    """One that would take the record beyond its write unit is kept in an item of its own, and one
    beyond what an item holds in the bucket: a duplicate costs what it always does. An attempt that
    resumes reads it, once.
    """
    world.service.sends(step("charge", result), ends=FAILED)
    half_done = items(world.table)

    recorder = Recorder(world.table, world.bucket)
    answer = world.service.sends(step("charge", b"another"))

    assert answer["statusCode"] == 201
    assert world.service.given == [result, result]
    assert world.service.ran == ["charge"]
    (record,) = [item for item in half_done if "status" in item]
    assert write_units(record) == 1
    is_object = result is IN_THE_BUCKET
    assert (len(half_done), len(world.objects())) == ((1, 1) if is_object else (2, 0))
    read = "GetObject" if is_object else "GetItem"
    assert [name for name in recorder.operations if name.startswith("Get")] == [read]


def test_a_result_beside_the_record_expires_after_it_and_never_before_its_end(world: World) -> None:
    """While the work is half done, neither the record nor what is kept beside it has an expiry; the
    transaction that completes the record gives both one, that of the companions later.
    """
    service = world.service
    service.sends(step("hold", BESIDE), ends=FAILED)
    service.sends(step("hold"), step("charge", BESIDE), step("ship", "small"), ends=FAILED)
    assert service.record.expires_at_s is None
    assert [item.get("expires_at") for item in world.companions()] == [None, None]

    recorder = Recorder(world.table)
    service.sends(step("hold"), step("charge"), step("ship"))

    record = service.record
    assert record.status is Status.COMPLETED
    assert record.expires_at_s is not None
    later = {"N": str(record.expires_at_s + 24 * 3600)}
    assert [item["expires_at"] for item in world.companions()] == [later, later]
    (transaction,) = [call for name, call in recorder.calls if name == "TransactWriteItems"]
    assert len(transaction["TransactItems"]) == 3


def test_two_attempts_at_a_step_keep_their_results_apart() -> None:
    """Two steps of one attempt, and one step of two attempts, have names of their own: what an
    earlier owner kept late cannot be taken for what is on record.
    """
    service = Steps()
    service.store.refuse("FinishStep", 1000)
    service.sends(step("charge", BESIDE, is_idempotent=True))
    service.store.refuse("FinishStep", 0)
    service.lets_the_lease_run_out()

    service.sends(step("charge", BESIDE[::-1], is_idempotent=True), step("ship", BESIDE))

    assert len(service.store.blobs) == 3
    assert service.given == [BESIDE[::-1], BESIDE]


@pytest.mark.parametrize("result", [BESIDE, IN_THE_BUCKET], ids=["item", "object"])
@pytest.mark.parametrize("damage", ["missing", "another result", "of another kind"])
@pytest.mark.requirement("E6")
def test_a_result_that_cannot_be_given_again_is_no_reason_to_run_again(
    world: World, result: bytes, damage: str
) -> None:
    """What is kept beside the record is gone, or is not what was kept: the run stops, and the
    record is unknown until a person has looked at it.

    Red when a finished step runs again for want of its result.
    """
    service = world.service
    service.sends(step("charge", result), ends=FAILED)
    names = [item["pk"] for item in world.companions()], world.objects()
    world.loses_what_is_kept()
    if damage != "missing":
        data = zlib.compress(b"1") if damage == "another result" else b""
        for pk in names[0]:
            item: dict[str, Any] = {"pk": pk, "data": {"B": data}} if data else {"pk": pk}
            world.table.put_item(TableName=TABLE, Item=item)
        for name in names[1]:
            world.bucket.put_object(Bucket=BUCKET, Key=name, Body=data)

    answer = service.sends(step("charge", b"another"), step("ship"))

    assert problem_of(answer) == (409, "outcome-unknown", True)
    assert service.ran == ["charge"]
    record = service.record
    assert (record.status, record.escalated_at_ms) == (Status.UNKNOWN, service.clock.now_ms())
    why = "missing" if damage == "missing" else "damaged"
    said = f"step-result-lost: step 'charge': the stored answer is {why}"
    assert record.last_error == said
    assert problem_of(service.send(POST))[1] == "outcome-unknown"
    assert len(service.runs) == 2


def test_a_result_whose_class_is_gone_is_no_reason_to_run_again() -> None:
    """A release without the class, or with other fields, cannot give it again, and says so."""
    service = Steps()
    service.sends(step("charge", Point(1, 2)), ends=FAILED)
    ((pk, record),) = service.store.records.items()
    (finished,) = record.steps.finished
    gone = replace(finished, result=finished.result.replace("Point", "Removed"))
    service.store.records[pk] = replace(record, steps=RecordedSteps(finished=(gone,)))

    answer = service.sends(step("charge"))

    assert problem_of(answer)[:2] == (409, "outcome-unknown")
    assert service.ran == ["charge"]
    assert str(service.record.last_error).startswith("step-result-lost: step 'charge': ")
    assert service.record.escalated_at_ms is not None


UNSTORABLE: dict[str, Any] = {
    "an object": object(),
    "a class": dict,
    "a generator": (number for number in (1,)),
    "one deep inside": {"found": [(object(),)]},
}


@pytest.mark.parametrize("is_idempotent", [False, True])
@pytest.mark.parametrize("result", UNSTORABLE.values(), ids=UNSTORABLE)
def test_a_result_that_cannot_be_stored_is_told_at_the_first_run(
    result: Any, is_idempotent: bool
) -> None:
    """The author gets a TypeError that says where it is. The step has been done and counts so: an
    attempt that resumes does not run it again, and has no result to go on with.
    """
    service = Steps()
    charge = step("charge", result, is_idempotent=is_idempotent)

    with pytest.raises(TypeError, match="result"):
        service.sends(charge)
    (finished,) = service.record.steps.finished
    assert isinstance(finished.result, NotKept)
    assert (service.record.status, service.record.expires_at_s) == (Status.FAILED_RETRYABLE, None)
    answer = service.sends(charge)

    assert problem_of(answer)[:2] == (409, "outcome-unknown")
    assert service.ran == ["charge"]
    assert service.record.status is Status.UNKNOWN
    assert service.record.escalated_at_ms == service.clock.now_ms()


def test_a_handler_that_needs_no_result_goes_on_without() -> None:
    """It may catch the TypeError: the step is done, and so is the operation at its end."""
    service = Steps()

    answer = service.sends(caught(step("charge", object()), TypeError), step("ship"))

    assert answer["statusCode"] == 201
    assert is_replay(service.send(POST))


def test_a_refusal_after_a_step_whose_result_is_lost_is_not_stored() -> None:
    """A handler that takes the TypeError for a failure tells its client that nothing was done: the
    step is done, so the outcome is unknown, and somebody is told.

    Red when the refusal is final.
    """
    service = Steps()

    answer = service.sends(caught(step("charge", object()), TypeError), ends={"statusCode": 402})

    assert problem_of(answer) == (409, "outcome-unknown", True)
    assert service.record.status is Status.UNKNOWN
    assert service.record.escalated_at_ms == service.clock.now_ms()


def test_an_answer_of_a_step_that_cannot_be_stored_counts_as_done() -> None:
    """`Final` with a body that has no stored form, raised in a step: as with any other result."""
    service = Steps()
    charge = step("charge", raises=Final(201, {"made": object()}))

    with pytest.raises(TypeError, match="oncekey"):
        service.sends(charge)
    assert service.record.status is Status.COMPLETED
    answer = service.sends(charge)

    assert problem_of(answer)[:2] == (500, "answer-unavailable")
    assert service.ran == ["charge"]


def test_without_a_bucket_a_result_beyond_an_item_is_given_once(world: World) -> None:
    """The attempt that ran the step has its result; one that resumes is stopped, and the step never
    runs again.
    """
    service = TableSteps(world.table)
    service.sends(step("charge", IN_THE_BUCKET), ends=FAILED)

    answer = service.sends(step("charge"))

    assert service.given == [IN_THE_BUCKET]
    assert problem_of(answer)[:2] == (409, "outcome-unknown")
    assert service.ran == ["charge"]
    last_error = service.record.last_error
    assert last_error == "step-result-lost: step 'charge': answer-too-large"


def test_many_small_results_leave_the_record_its_write_unit(world: World) -> None:
    """Results that fit one by one and not together are kept beside the record as it fills up."""
    service = world.service
    names = [f"step-{number}" for number in range(6)]

    service.sends(*(step(name, noise(200)) for name in names), ends=FAILED)

    (record,) = [item for item in items(world.table) if "status" in item]
    results = [each.result for each in service.record.steps.finished]
    places = [each.place for each in results if isinstance(each, StoredRef)]
    assert 0 < len(places) < len(names)
    assert set(places) == {Place.ITEM}
    assert write_units(record) <= 2
    service.given.clear()
    service.sends(*(step(name) for name in names))
    assert service.given == [noise(200)] * 6


def test_a_results_object_stands_where_no_lifecycle_rule_reaches(world: World) -> None:
    """A large step result is an object under `results/`, and a large answer one under `answers/`;
    only the latter are among the folders that the bucket of the service expires.

    Red when evidence of half-done work is put where a lifecycle rule removes it.
    """
    service = world.service
    service.sends(step("charge", IN_THE_BUCKET), ends=FAILED)
    results = world.objects()
    body = IN_THE_BUCKET.hex()
    service.sends(step("charge"), ends={"statusCode": 201, "body": body})
    answers = sorted(set(world.objects()) - set(results))

    expiring = {each.prefix for bucket in SERVICE.buckets for each in bucket.expirations}
    assert [name.partition("/")[0] for name in results] == ["results"]
    assert [name.partition("/")[0] for name in answers] == ["answers"]
    assert "answers/" in expiring
    assert not {"", "results/"} & expiring
