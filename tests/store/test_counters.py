"""What both stores do with the count of a new key, and that they do the same."""

from __future__ import annotations

import itertools
import os
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.errors import StoreError
from oncekey.record.commit import Commit, ConditionsFailed
from oncekey.record.counter import Count, Counter, RefusedCount
from oncekey.record.transitions import Reserve
from oncekey.store.dynamodb.counters import count_update, counter_from_item
from oncekey.store.store import Refused, Written
from oncekey.testing.memory import MemoryStore
from tests.support.dynamodb import TABLE, store_on, write_units
from tests.support.records import NOW_MS, record
from tests.support.replacing import replace
from tests.support.transition_rows import PK

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from oncekey.store.store import Store

RECORD = replace(record(), pk=PK)
SOON, LATER = 1_700_003_600, 1_700_007_200
WINDOW = Count(name="quota#window", tenant="acme", limit=2, expires_at_s=SOON)
ACTIVE = replace(WINDOW, name="quota#active", runs_out_at_s=LATER)
COUNTERS: dict[str, Counter | None] = {
    "absent": None,
    "empty": Counter(count=0, expires_at_s=SOON),
    "one": Counter(count=1, buckets={SOON: 1}, expires_at_s=SOON),
    "one in the same bucket": Counter(count=1, buckets={LATER: 1}, expires_at_s=SOON),
    "full": Counter(count=2, buckets={SOON: 2}, expires_at_s=SOON),
    "full, in two buckets": Counter(count=2, buckets={SOON: 1, LATER: 1}, expires_at_s=SOON),
    "above": Counter(count=4, buckets={SOON: 2, LATER: 2}, expires_at_s=SOON),
    "taken off meanwhile": Counter(count=0, buckets={LATER: 0}, expires_at_s=SOON),
}
COUNTS: dict[str, Count] = {
    "in a window": WINDOW,
    "in a bucket": ACTIVE,
    "one taken off": replace(ACTIVE, taken_off=((SOON, 1),)),
    "two taken off": replace(ACTIVE, taken_off=((SOON, 2),)),
    "two buckets taken off": replace(
        ACTIVE, runs_out_at_s=LATER + 3_600, taken_off=((SOON, 1), (LATER, 1))
    ),
}


def reserve(*counts: Count, number: int = 0, pk: str = PK) -> Commit:
    """A new key, with what it is counted in."""
    # Every test has the same engine, and what differs has another token there.
    content = f"{os.environ['PYTEST_CURRENT_TEST']} {counts} {number} {pk}"
    return Commit(
        transition=Reserve(record=replace(RECORD, pk=pk), now_ms=NOW_MS),
        token=str(uuid.uuid5(uuid.NAMESPACE_OID, content)),
        counts=counts,
    )


def item_of(name: str, counter: Counter) -> dict[str, Any]:
    """The item that a counter is."""
    buckets = {f"until_{at_s}": {"N": str(keys)} for at_s, keys in counter.buckets.items()}
    return {
        "pk": {"S": name},
        "tenant": {"S": "acme"},
        "count": {"N": str(counter.count)},
        "expires_at": {"N": str(counter.expires_at_s)},
        **buckets,
    }


@pytest.fixture(autouse=True)
def _no_counters(client: DynamoDBClient) -> None:
    for item in client.scan(TableName=TABLE)["Items"]:
        client.delete_item(TableName=TABLE, Key={"pk": item["pk"]})


@pytest.mark.requirement("C15")
@pytest.mark.parametrize(
    ("before", "count"),
    list(itertools.product(COUNTERS.values(), COUNTS.values())),
    ids=[f"{counter}, {count}" for counter, count in itertools.product(COUNTERS, COUNTS)],
)
def test_dynamodb_and_the_reference_agree_on_every_count(
    client: DynamoDBClient, before: Counter | None, count: Count
) -> None:
    """A count is permitted by DynamoDB exactly when the rules permit it, and leaves what they say;
    a refusal shows the counter that it met, and reserves nothing.

    Red when a condition is off by one, forgets a bucket that is taken off, or an update adds
    something else than it says.
    """
    reference, dynamodb = MemoryStore(), store_on(client)
    if before is not None:
        reference.counters[count.name] = before
        client.put_item(TableName=TABLE, Item=item_of(count.name, before))

    expected = reference.commit(reserve(count))
    actual = dynamodb.commit(reserve(count))

    assert actual == expected
    assert dynamodb.read(PK) == reference.read(PK)
    assert counter_in(client, count.name) == reference.counters.get(count.name)
    assert (reference.read(PK) is not None) is (expected == Written())
    if expected != Written():
        assert expected == ConditionsFailed((), (RefusedCount(count, before),))


def counter_in(client: DynamoDBClient, name: str) -> Counter | None:
    """The counter in the table."""
    item: Any = client.get_item(TableName=TABLE, Key={"pk": {"S": name}}).get("Item")
    return None if item is None else counter_from_item(item)


@pytest.mark.requirement("C15")
def test_a_key_that_exists_is_refused_by_its_record_and_not_by_a_counter(store: Store) -> None:
    """The record's own condition is judged first, however full the counter is.

    Red when a store looks at the counter before the record.
    """
    full = replace(WINDOW, limit=1)
    assert store.commit(reserve(full)) == Written()

    again = store.commit(reserve(full, number=1))

    assert again == Refused(RECORD)


@pytest.mark.requirement("C15")
def test_a_reserve_that_is_sent_again_counts_once(store: Store) -> None:
    """The same transaction, sent twice because its answer was lost, counts one key.

    Red when the count is not fenced by the record.
    """
    assert store.commit(reserve(WINDOW, ACTIVE)) == Written()
    assert store.commit(reserve(WINDOW, ACTIVE)) == Refused(RECORD)
    assert store.commit(reserve(WINDOW, ACTIVE, number=1)) == Refused(RECORD)

    other = store.commit(reserve(WINDOW, ACTIVE, number=2, pk=f"{PK}-other"))
    assert other == Written()


@pytest.mark.requirement("C15")
def test_a_key_is_counted_everywhere_or_nowhere(store: Store) -> None:
    """Where one of two counters is full, the other is as it was, and it is said which was full.

    Red when a count is applied on its own.
    """
    one, two = replace(WINDOW, limit=1), replace(ACTIVE, limit=2)
    assert store.commit(reserve(one, two)) == Written()

    reply = store.commit(reserve(one, two, number=1, pk=f"{PK}-second"))

    assert isinstance(reply, ConditionsFailed)
    assert [each.count for each in reply.counts] == [one]
    assert store.read(f"{PK}-second") is None
    last = reserve(two, number=2, pk=f"{PK}-third")
    assert store.commit(last) == Written()


def test_a_counters_item_is_small_and_expires(client: DynamoDBClient) -> None:
    """An active counter with a bucket for each hour of a day costs one unit, and carries the TTL
    attribute of the table and the tenant that it belongs to.
    """
    dynamodb = store_on(client)
    for hour in range(25):
        hourly = replace(ACTIVE, limit=10**9, runs_out_at_s=SOON + hour * 3_600)
        new = reserve(hourly, number=hour, pk=f"{PK}-{hour}")
        assert dynamodb.commit(new) == Written()

    item: Any = client.get_item(TableName=TABLE, Key={"pk": {"S": ACTIVE.name}})["Item"]
    assert item["expires_at"] == {"N": str(SOON)}
    assert item["tenant"] == {"S": "acme"}
    assert item["count"] == {"N": "25"}
    assert write_units(item) == 1


def test_an_item_that_is_no_counter_fails_closed() -> None:
    """What somebody else has put there admits nobody."""
    with pytest.raises(StoreError, match="counter cannot be read"):
        counter_from_item({"pk": {"S": "quota#1"}})


def test_a_count_declares_only_what_it_uses() -> None:
    """DynamoDB refuses a name or a value that no expression uses."""
    for count in COUNTS.values():
        update = count_update(TABLE, count)
        used = f"{update['UpdateExpression']} {update['ConditionExpression']}"
        declared = [*update["ExpressionAttributeNames"], *update["ExpressionAttributeValues"]]
        assert all(name in used for name in declared)
