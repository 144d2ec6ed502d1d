"""What every store must do, and that the DynamoDB store does exactly what the reference does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import DynamoDBStore, StoreError
from oncekey.record.record import SETTLED, Effects, Status
from oncekey.record.stored_answer import Place, StoredRef
from oncekey.record.transitions import (
    Complete,
    ExpireLease,
    Reserve,
    TakeOver,
    Transition,
)
from oncekey.store.dynamodb.codec import attribute_values, record_from_item
from oncekey.store.dynamodb.expressions import put_parameters, update_parameters
from oncekey.store.store import Refused, Written
from oncekey.testing.memory import MemoryStore
from tests.support.due_rows import DUE_ROWS
from tests.support.dynamodb import TABLE, Recorder, items, store_on
from tests.support.records import EXPIRIES, LEASES, NOW_MS, every_record, record
from tests.support.replacing import replace
from tests.support.transition_rows import PK, VERSIONS
from tests.support.transition_table import NEVER
from tests.support.transition_table import TABLE as ROWS

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

    from oncekey.record.record import Record
    from oncekey.store.store import Store
    from tests.support.wire import Wire

# The attribute names are a contract with tables already in use.
NAMES = frozenset(
    {
        *("pk", "status", "rev", "tenant", "principal", "operation", "key", "operation_id"),
        *("fingerprint", "owner", "attempt", "effects", "created_at", "lease_until"),
        *("completed_at", "expires_at", "due_shard", "due_at", "response", "response_version"),
        *("reconcile_attempts", "last_error", "escalated_at", "steps", "request", "request_digest"),
        *("policy", "traceparent"),
    }
)


def stored_records() -> Iterator[Record]:
    """Every record, with its answer if it has one, and due only while somebody must look at it."""
    for each in every_record():
        if each.status is Status.COMPLETED:
            answered = replace(
                each, response='{"statusCode":201}', response_version=1, request=None
            )
            yield replace(answered, due=None, completed_at_ms=NOW_MS - 1_000)
        else:
            half_done = bool(each.steps.finished)
            yield replace(each, due=None) if each.status in SETTLED and not half_done else each


def all_transitions() -> Iterator[tuple[str, Transition]]:
    """Every row of the contract's table, by every owner and at every version seen, each once."""
    known: list[Transition] = []
    for row in [*ROWS, *DUE_ROWS, *NEVER]:
        for named, version in VERSIONS.items():
            transition = row.build(version)
            if transition not in known:
                known.append(transition)
                yield f"{row.name}, {named}", transition


# Every sixth record, from one of these on.
SIXTHS = range(6)


def _cases() -> Iterator[Any]:
    """Every transition with every sixth record, from a different one on each time.

    The other records, and transitions from another revision than the record's, are a proof.
    """
    for number, (name, change) in enumerate(all_transitions()):
        first = {number % len(SIXTHS)}
        if name.endswith("other rev"):
            yield pytest.param(change, set(SIXTHS), id=name, marks=pytest.mark.proof)
            continue
        yield pytest.param(change, first, id=name)
        others = set(SIXTHS) - first
        yield pytest.param(change, others, id=f"{name}, others", marks=pytest.mark.proof)


@pytest.mark.parametrize(("transition", "sixths"), list(_cases()))
def test_dynamodb_and_the_reference_agree_on_every_transition_of_every_record(
    client: DynamoDBClient, dynamodb: DynamoDBStore, transition: Transition, sixths: set[int]
) -> None:
    """A transition is permitted by DynamoDB's condition exactly when the rules permit it, and
    leaves exactly what they say.

    Over every status, lease, expiry, kind of effects and of steps that can make a difference to it,
    and over an absent record.
    """
    check_agreement(client, dynamodb, transition, sixths)


def test_the_direct_transport_and_the_reference_agree_on_a_completion(
    client: DynamoDBClient, way: Wire
) -> None:
    """By the direct transport, a completion does what it does by boto3, for every record that can
    make a difference to it. The conditions are those of boto3, so one transition shows the way.

    Red when a value, a refusal or its record is lost on the way.
    """
    transition = next(change for _, change in all_transitions() if isinstance(change, Complete))

    check_agreement(client, way.store(), transition)


def check_agreement(
    client: DynamoDBClient,
    dynamodb: DynamoDBStore,
    transition: Transition,
    sixths: Container[int] = SIXTHS,
) -> None:
    """Both stores permit and refuse the same, and hold the same afterwards."""
    reference = MemoryStore()
    for place, (number, before) in enumerate(records_for(transition)):
        if place % len(SIXTHS) not in sixths:
            continue
        reference.records[f"v1#record-{number}"] = replace(before, pk=f"v1#record-{number}")
    keys = ["v1#absent", *reference.records]
    fill(client, reference)

    # A refusal shows the record that it met.
    expected = {pk: reference.write(on(transition, pk)) for pk in keys}
    actual = {pk: dynamodb.write(on(transition, pk)) for pk in keys}

    assert actual == expected
    assert {item["pk"]["S"]: record_from_item(item) for item in items(client)} == reference.records


def records_for(transition: Transition) -> Iterator[tuple[int, Record]]:
    """Every record that can make a difference to it, under the same number for every transition.

    Only a reserve asks for an expiry, and only a dead run's end asks for the very end of a lease.
    """
    expiries = {EXPIRIES[name] for name in ("none", "past")}
    leases = {LEASES[name] for name in ("absent", "open", "over")}
    for number, each in enumerate(stored_records()):
        if not isinstance(transition, Reserve) and each.expires_at_s not in expiries:
            continue
        if isinstance(transition, TakeOver | ExpireLease) or each.lease_until_ms in leases:
            yield number, each


def fill(client: DynamoDBClient, reference: MemoryStore) -> None:
    """Make the table hold what `reference` holds and nothing else."""
    held = {item["pk"]["S"]: item for item in items(client)}
    wanted = {pk: attribute_values(record) for pk, record in reference.records.items()}
    requests: list[Any] = [
        {"DeleteRequest": {"Key": {"pk": {"S": pk}}}} for pk in held.keys() - wanted.keys()
    ]
    requests += [
        {"PutRequest": {"Item": item}} for pk, item in wanted.items() if held.get(pk) != item
    ]
    for start in range(0, len(requests), 25):
        client.batch_write_item(RequestItems={TABLE: requests[start : start + 25]})


def on(transition: Transition, pk: str) -> Transition:
    """The same transition of another record."""
    if isinstance(transition, Reserve):
        return replace(transition, record=replace(transition.record, pk=pk))
    return replace(transition, pk=pk)


def test_some_transition_is_permitted_and_some_is_refused_for_every_status() -> None:
    """The comparison of the two stores is not empty: each status is left by a transition."""
    permitted = set()
    for before in every_record():
        for _, transition in all_transitions():
            reference = MemoryStore()
            reference.records[PK] = before
            if isinstance(reference.write(transition), Written):
                permitted.add((before.status, type(transition).__name__))

    assert permitted == {
        (Status.PENDING, "Begin"),
        (Status.PENDING, "TimeOut"),
        (Status.FAILED_RETRYABLE, "Enqueue"),
        (Status.COMPLETED, "Reserve"),
        (Status.FAILED_RETRYABLE, "Reserve"),
        (Status.FAILED_RETRYABLE, "Resume"),
        (Status.FAILED_RETRYABLE, "Enqueue"),
        (Status.FAILED_RETRYABLE, "LateEffect"),
        (Status.PENDING, "SettlePending"),
        (Status.FAILED_RETRYABLE, "Reschedule"),
        (Status.PENDING, "Reschedule"),
        (Status.UNKNOWN, "Reschedule"),
        (Status.PENDING, "Begin"),
        (Status.PENDING, "TimeOut"),
        (Status.IN_PROGRESS, "TakeOver"),
        (Status.IN_PROGRESS, "ExpireLease"),
        (Status.IN_PROGRESS, "Complete"),
        (Status.IN_PROGRESS, "Release"),
        (Status.IN_PROGRESS, "MarkUnknown"),
        (Status.IN_PROGRESS, "StartStep"),
        (Status.IN_PROGRESS, "FinishStep"),
        (Status.IN_PROGRESS, "ClearStep"),
        (Status.UNKNOWN, "Complete"),
        (Status.UNKNOWN, "Settle"),
        (Status.UNKNOWN, "SettleStep"),
    }


def test_a_reserve_creates_the_record(store: Store) -> None:
    """What is reserved can be read back, whole."""
    fresh = record()

    assert store.write(Reserve(record=fresh, now_ms=NOW_MS)) == Written()
    assert store.read(PK) == fresh


def test_a_refused_write_returns_what_stands_in_its_way_and_writes_nothing(store: Store) -> None:
    """The loser of a reserve gets the winner's record with the refusal, in the same call."""
    first = record()
    second = record(lease_until_ms=NOW_MS + 2, owner="second")
    store.write(Reserve(record=first, now_ms=NOW_MS))

    assert store.write(Reserve(record=second, now_ms=NOW_MS)) == Refused(first)
    assert store.read(PK) == first


def test_an_absent_record_reads_as_none(store: Store) -> None:
    """Nothing under a key is None, not an error."""
    assert store.read("v1#nothing-here") is None


def test_a_reserve_is_one_conditional_write_on_the_primary_key(client: DynamoDBClient) -> None:
    """A reserve is one PutItem with a condition on its primary key, won or lost; the record that
    stood in its way comes with the refusal.
    """
    client.delete_item(TableName=TABLE, Key={"pk": {"S": PK}})
    recorder = Recorder(client)
    store = store_on(client)
    reserve = Reserve(record=record(), now_ms=NOW_MS)

    assert isinstance(store.write(reserve), Written)
    assert isinstance(store.write(reserve), Refused)
    assert recorder.operations == ["PutItem", "PutItem"]
    assert all(
        "attribute_not_exists(#pk)" in call["ConditionExpression"] for _, call in recorder.calls
    )
    assert all(
        call["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD" for _, call in recorder.calls
    )


def test_every_read_is_strongly_consistent(client: DynamoDBClient) -> None:
    """A record, and an answer that is kept beside it, are read as of now.

    Red when an old copy may be read: a repeat would find a record without an end, or no answer.
    """
    store = store_on(client)
    sent = Recorder(client)

    store.read(PK)
    store.fetch(StoredRef(place=Place.ITEM, name=f"{PK}#owner", digest=""))

    assert [(name, parameters["ConsistentRead"]) for name, parameters in sent.calls] == [
        ("GetItem", True),
        ("GetItem", True),
    ]


def test_every_transition_is_one_write_that_dynamodb_validates(client: DynamoDBClient) -> None:
    """Each transition's parameters pass botocore's validation and are one request.

    The library's own client leaves that validation out.
    """
    recorder = Recorder(client)
    store = store_on(client)
    for _, transition in all_transitions():
        store.write(transition)

    assert len(recorder.calls) == len(list(all_transitions()))
    assert set(recorder.operations) == {"PutItem", "UpdateItem"}


def test_no_expression_declares_a_name_or_value_that_it_does_not_use() -> None:
    """DynamoDB refuses unused names and values, which moto lets pass."""
    for name, transition in all_transitions():
        parameters = (
            put_parameters(TABLE, transition)
            if isinstance(transition, Reserve)
            else update_parameters(TABLE, transition)
        )
        text = f"{parameters['ConditionExpression']} {parameters.get('UpdateExpression', '')}"
        words = set(re.findall(r"[#:]\w+", text))
        declared = {
            *parameters["ExpressionAttributeNames"],
            *parameters["ExpressionAttributeValues"],
        }

        assert declared == words, name


@pytest.mark.parametrize(
    "before", [pytest.param(before, id=str(n)) for n, before in enumerate(stored_records())][::7]
)
def test_a_record_survives_its_item(before: Record) -> None:
    """A record is read back as it was written."""
    assert record_from_item(attribute_values(before)) == before


def test_attribute_names_are_the_contract() -> None:
    """No attribute is renamed: tables in use hold these names."""
    rare = record(request_digest="a-digest", traceparent="00-a-b-01")

    written = set().union(*map(attribute_values, [*stored_records(), rare]))

    assert written == NAMES


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("status", {"S": "A_NEWER_STATE"}), ("effects", {"S": "magic"}), ("operation", {"N": "7"})],
)
def test_an_item_of_a_newer_release_is_an_error_and_never_a_run(
    client: DynamoDBClient, attribute: str, value: dict[str, str]
) -> None:
    """An item that cannot be understood fails the call, and asking again is not suggested."""
    item = attribute_values(record()) | {attribute: value}
    client.put_item(TableName=TABLE, Item=item)

    with pytest.raises(StoreError, match="cannot be read") as failure:
        store_on(client).write(Reserve(record=record(), now_ms=NOW_MS))
    assert not failure.value.transient


def test_an_item_of_somebody_else_is_an_error(client: DynamoDBClient) -> None:
    """An item without our attributes is not taken for an absent record."""
    client.put_item(TableName=TABLE, Item={"pk": {"S": PK}})

    with pytest.raises(StoreError, match="cannot be read"):
        store_on(client).write(Reserve(record=record(), now_ms=NOW_MS))


def test_a_record_without_optional_attributes_is_small() -> None:
    """A record of a usual request stays within the 1 KB that one write unit covers."""
    item = attribute_values(record())
    size = sum(len(name) + len(str(next(iter(value.values())))) for name, value in item.items())

    assert size < 600


def test_a_store_can_be_made_without_a_region_or_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Making a store needs nothing; the first call without a Region is a store failure that no
    waiting helps.
    """
    for name in ("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    store = DynamoDBStore("a-table")

    with pytest.raises(StoreError, match="NoRegionError") as failure:
        store.read("v1#")
    assert not failure.value.transient


def test_a_missing_table_is_a_failure_that_no_waiting_helps(client: DynamoDBClient) -> None:
    """A call to a table that does not exist is a store failure, named, and not transient."""
    with pytest.raises(StoreError, match="ResourceNotFoundException") as failure:
        DynamoDBStore("no-such-table", client=client).read("v1#")
    assert not failure.value.transient


def test_repr_names_the_table_and_no_secret() -> None:
    """A store shows what it is, for logs."""
    assert repr(DynamoDBStore("a-table")) == "DynamoDBStore(table='a-table')"


def test_effects_differ_between_records() -> None:
    """The records compared cover every kind of effects."""
    assert {before.effects for before in every_record()} == set(Effects)
