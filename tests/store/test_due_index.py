"""What both stores give of the `due` index, and that they give the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest

from oncekey.errors import StoreError
from oncekey.record.record import Due, Effects, Status
from oncekey.record.transitions import (
    Complete,
    Doubt,
    Ending,
    Enqueue,
    MarkUnknown,
    Release,
    Reschedule,
    Reserve,
    Retry,
    TakeOver,
    seen,
)
from oncekey.settings import DUE_SHARDS
from oncekey.store.due_index import MOST_ON_PAGE, due_keys
from oncekey.store.store import Written
from oncekey.testing.memory import MemoryStore
from tests.support.dynamodb import TABLE, LossyTransport, Recorder, deny, items, store_on
from tests.support.records import NOW_MS, NOW_S, record
from tests.support.replacing import replace
from tests.support.transition_rows import LEASE, PK, WAITING

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_dynamodb import DynamoDBClient

    from oncekey.record.transitions import Transition
    from oncekey.store.due_index import OpenRecords


# What a page holds in these tests: the same with less to write.
PAGE = 5


@pytest.fixture
def store(request: pytest.FixtureRequest, client: DynamoDBClient) -> OpenRecords:
    """An empty store of either kind."""
    return MemoryStore() if request.param == "memory" else store_on(client)


@pytest.fixture(autouse=True)
def _empty(client: DynamoDBClient) -> None:
    for item in client.scan(TableName=TABLE)["Items"]:
        client.delete_item(TableName=TABLE, Key={"pk": item["pk"]})


@pytest.fixture
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("store.dynamodb.due", "testing.memory"):
        monkeypatch.setattr(f"oncekey.{module}.MOST_ON_PAGE", PAGE)


PAGED = pytest.mark.usefixtures("_small_pages")
BOTH = pytest.mark.parametrize("store", ["memory", "dynamodb"], indirect=True)


def put(store: OpenRecords, pk: str, due: Due | None, status: Status = Status.UNKNOWN) -> None:
    """A record under `pk` that is due then."""
    new = record(pk=pk, due=due, status=status, expires_at_s=None, response=None)
    assert store.write(Reserve(record=new, now_ms=NOW_MS)) == Written()


def pages(store: OpenRecords, shard: str, until_ms: int) -> list[tuple[str, ...]]:
    """The keys of each page."""
    found, after = [], None
    while True:
        page = store.due(shard, until_ms, after=after)
        assert page.read == len(page.keys)
        found.append(page.keys)
        after = page.after
        if after is None:
            return found


@PAGED
@BOTH
def test_what_is_due_comes_page_by_page_and_the_longest_due_first(store: OpenRecords) -> None:
    """All that is due in a shard at a time comes once, in pages, the longest due first; nothing of
    another shard, and nothing that is due later.
    """
    number = 2 * PAGE + 3
    for each in reversed(range(number)):
        put(store, f"v1#{each:04d}", Due(shard="5", at_ms=NOW_MS - number + each))
    put(store, "v1#exactly", Due(shard="5", at_ms=NOW_MS))
    put(store, "v1#later", Due(shard="5", at_ms=NOW_MS + 1))
    put(store, "v1#elsewhere", Due(shard="50", at_ms=NOW_MS - 1))

    found = pages(store, "5", NOW_MS)

    assert [len(page) for page in found] == [PAGE, PAGE, 4]
    keys = [key for page in found for key in page]
    assert keys == [*(f"v1#{each:04d}" for each in range(number)), "v1#exactly"]
    assert pages(store, "50", NOW_MS) == [("v1#elsewhere",)]


@PAGED
@BOTH
def test_what_became_due_in_one_moment_comes_once(store: OpenRecords) -> None:
    """Records that are due at the same millisecond are not lost, or given twice, between pages."""
    keys = {f"v1#{each:04d}" for each in range(PAGE + 3)}
    for key in keys:
        put(store, key, Due(shard="0", at_ms=NOW_MS))

    found = [key for page in pages(store, "0", NOW_MS) for key in page]

    assert len(found) == len(keys)
    assert set(found) == keys


@PAGED
@BOTH
def test_a_page_goes_on_where_records_have_left_the_index(store: OpenRecords) -> None:
    """What is settled between two pages, as a reconciler does, hides none of the others."""
    for each in range(PAGE + 3):
        put(store, f"v1#{each:04d}", Due(shard="0", at_ms=NOW_MS + each))
    first = store.due("0", NOW_MS + 1_000)
    for key in first.keys:
        met = store.read(key)
        assert met is not None
        later = Due(shard="0", at_ms=NOW_MS + 5_000)
        turn = Reschedule(pk=key, seen=seen(met), due=later, attempts=1)
        assert store.write(turn) == Written()

    rest = store.due("0", NOW_MS + 1_000, after=first.after)

    assert rest.keys == tuple(f"v1#{each:04d}" for each in range(PAGE, PAGE + 3))
    assert rest.after is None


@pytest.mark.requirement("B6")
@BOTH
def test_the_index_holds_open_records_alone(store: OpenRecords) -> None:
    """A record that is completed leaves the index with that write.

    Red when a settled record keeps its index keys.
    """
    put(store, "v1#running", Due(shard="0", at_ms=NOW_MS), Status.IN_PROGRESS)
    put(store, "v1#told", Due(shard="0", at_ms=NOW_MS))
    put(store, "v1#nobody", None)
    assert set(store.due("0", NOW_MS).keys) == {"v1#running", "v1#told"}
    ending = Ending(response="done", completed_at_ms=NOW_MS, expires_at_s=NOW_S + 1)
    assert store.write(Complete(pk="v1#running", owner="owner-1", ending=ending)) == Written()

    page = store.due("0", NOW_MS + 1_000_000)

    assert (page.keys, page.after, page.read) == (("v1#told",), None, 1)


@BOTH
def test_the_most_shards_are_remembered(store: OpenRecords) -> None:
    """The number never falls: whoever asks with fewer is told of the most that there were."""
    assert [store.most_due_shards(each) for each in (4, 2, 16, 1, 3)] == [4, 4, 16, 16, 16]


@BOTH
def test_no_record_is_hidden_when_the_number_of_shards_is_lowered(store: OpenRecords) -> None:
    """Records in every shard that was ever used are found with a lower number, and before anybody
    has noted a number those of the default.
    """
    for shard in range(40):
        put(store, f"v1#{shard:04d}", Due(shard=str(shard), at_ms=NOW_MS))

    of_default = list(due_keys(store, until_ms=NOW_MS, shards=1))
    store.most_due_shards(40)
    of_all = list(due_keys(store, until_ms=NOW_MS, shards=1, first=7))

    assert of_default == [f"v1#{shard:04d}" for shard in range(DUE_SHARDS)]
    assert of_all == [f"v1#{(shard + 7) % 40:04d}" for shard in range(40)]


@PAGED
@BOTH
def test_no_shard_waits_for_the_end_of_another(store: OpenRecords) -> None:
    """A shard with more than a page lets the others have theirs before its second page."""
    for each in range(PAGE + 1):
        put(store, f"v1#a{each:04d}", Due(shard="0", at_ms=NOW_MS - 500 + each))
    put(store, "v1#b", Due(shard="1", at_ms=NOW_MS))

    keys = list(due_keys(store, until_ms=NOW_MS, shards=2))

    assert keys[-2:] == ["v1#b", f"v1#a{PAGE:04d}"]
    assert len(keys) == PAGE + 2


def test_a_page_is_one_query_by_the_keys_of_the_index(client: DynamoDBClient) -> None:
    """A page is one Query of the index, by its keys alone: nothing is read to be filtered out, and
    no consistent read is asked of an index, which has none.

    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_Query.html
    """
    recorder = Recorder(client)

    store_on(client).due("3", NOW_MS)

    ((operation, parameters),) = recorder.calls
    assert (operation, parameters["IndexName"]) == ("Query", "due")
    assert not {"FilterExpression", "ConsistentRead"} & set(parameters)
    assert parameters["Limit"] == MOST_ON_PAGE


def test_the_number_of_shards_costs_one_read_a_run(client: DynamoDBClient) -> None:
    """In steady state the number is one strongly consistent read, and no write."""
    store_on(client).most_due_shards(16)
    recorder = Recorder(client)

    assert store_on(client).most_due_shards(16) == 16
    ((operation, parameters),) = recorder.calls
    assert (operation, parameters["ConsistentRead"]) == ("GetItem", True)


def test_who_notes_fewer_at_the_same_moment_learns_of_more(client: DynamoDBClient) -> None:
    """Of two reconcilers that note their numbers at once, the higher one stays."""
    store = store_on(client)
    happened: list[bool] = []

    def meanwhile(**_: Any) -> None:
        if not happened:
            happened.append(True)
            assert store_on(client).most_due_shards(99) == 99

    client.meta.events.register("before-call.dynamodb.UpdateItem", meanwhile)

    assert store.most_due_shards(20) == 99
    assert store.most_due_shards(1) == 99


@pytest.mark.usefixtures("client")
def test_an_index_that_does_not_answer_is_a_store_error() -> None:
    """A call that fails, loses its answer or is not allowed is a StoreError, and a passing one
    unless asking again would not help.
    """
    # Of its own: what it is denied stays denied.
    client: DynamoDBClient = boto3.client("dynamodb", region_name="eu-central-1")
    store, transport = store_on(client), LossyTransport(client)
    asked: dict[str, Callable[[], object]] = {
        "Query": lambda: store.due("0", NOW_MS),
        "UpdateItem": lambda: store.most_due_shards(16),
        "GetItem": lambda: store.most_due_shards(16),
    }
    for operation, call in asked.items():
        for befalls in (transport.refuse, transport.lose):
            befalls(operation)
            assert is_passing(call)
            client.delete_item(TableName=TABLE, Key={"pk": {"S": "due#shards"}})
        deny(client, operation)
        assert not is_passing(call)


def is_passing(call: Callable[[], object]) -> bool:
    """Whether the failure of `call` is one that asking again may cure."""
    with pytest.raises(StoreError) as failed:
        call()
    return failed.value.transient


def test_a_key_of_the_index_is_no_record(client: DynamoDBClient) -> None:
    """The item that remembers the shards is under no key that a record can have, and is not due."""
    store = store_on(client)
    store.most_due_shards(16)

    (item,) = client.scan(TableName=TABLE)["Items"]
    assert not item["pk"]["S"].startswith("v1#")
    assert "due_shard" not in item


@pytest.mark.fault("K5.6")
@BOTH
def test_what_cannot_be_read_is_put_off_and_that_is_counted(store: OpenRecords) -> None:
    """What is due is due later, and nothing else of it is changed; it is counted how often. What is
    not due by then, or not there, is left alone.

    Red when what somebody has moved on meanwhile is put off.
    """
    put(store, "v1#stuck", Due(shard="5", at_ms=NOW_MS))
    before = store.read("v1#stuck")
    assert before is not None

    assert store.put_off("v1#stuck", due_by_ms=NOW_MS - 1, to_ms=NOW_MS + 9) is None
    assert store.put_off("v1#absent", due_by_ms=NOW_MS, to_ms=NOW_MS + 9) is None
    assert store.put_off("v1#stuck", due_by_ms=NOW_MS, to_ms=NOW_MS + 1) == 1
    assert store.put_off("v1#stuck", due_by_ms=NOW_MS, to_ms=NOW_MS + 2) is None
    assert store.put_off("v1#stuck", due_by_ms=NOW_MS + 1, to_ms=NOW_MS + 2, counts=False) == 1
    assert store.put_off("v1#stuck", due_by_ms=NOW_MS + 2, to_ms=NOW_MS + 3) == 2

    assert store.read("v1#stuck") == replace(before, due=Due(shard="5", at_ms=NOW_MS + 3))
    assert store.due("5", NOW_MS + 2).keys == ()
    assert store.due("5", NOW_MS + 3).keys == ("v1#stuck",)
    assert store.read("v1#absent") is None


NOT_INDEXED = Due(shard="", at_ms=NOW_MS + 5)
OURS = seen(record())
# Each transition that says when a record is due, from a state that permits it.
DUE_AGAIN: dict[str, tuple[dict[str, Any], Transition]] = {
    "takeover": (
        {"effects": Effects.REPEATABLE, "lease_until_ms": NOW_MS - 1},
        TakeOver(pk=PK, seen=OURS, lease=replace(LEASE, due=NOT_INDEXED), now_ms=NOW_MS),
    ),
    "doubt": (
        {},
        MarkUnknown(pk=PK, owner=OURS.owner, doubt=Doubt(reason="why", due=NOT_INDEXED)),
    ),
    "release": (
        {},
        Release(
            pk=PK,
            owner=OURS.owner,
            retry=Retry(reason="why", expires_at_s=None, due=NOT_INDEXED),
        ),
    ),
    "enqueue": (
        {"status": Status.FAILED_RETRYABLE},
        Enqueue(pk=PK, seen=OURS, waiting=replace(WAITING, due=NOT_INDEXED)),
    ),
    "turn": (
        {"status": Status.UNKNOWN},
        Reschedule(pk=PK, seen=OURS, due=NOT_INDEXED, attempts=1),
    ),
}


@pytest.mark.parametrize("name", DUE_AGAIN)
def test_a_record_that_was_in_the_index_leaves_it(name: str, client: DynamoDBClient) -> None:
    """Where the index is switched off, the next write takes a record out of it, and both stores
    agree on the record.

    Red when a write keeps the partition that an earlier one wrote.
    """
    changes, transition = DUE_AGAIN[name]
    before = record(**changes)
    reference, dynamodb = MemoryStore(), store_on(client)
    for store in (reference, dynamodb):
        assert store.write(Reserve(record=before, now_ms=NOW_MS)) == Written()
        assert store.write(transition) == Written()

    after = dynamodb.read(PK)

    assert after == reference.read(PK)
    assert after is not None
    assert after.due == NOT_INDEXED
    (item,) = items(client)
    assert "due_shard" not in item


@BOTH
def test_a_record_outside_the_index_is_looked_at_like_any_other(store: OpenRecords) -> None:
    """Its due time is on record, so a turn may be written; and the next one may bring it back.

    Red when the due time of such a record is left out: `Reschedule` asks for it.
    """
    put(store, PK, NOT_INDEXED)
    assert store.due("0", NOW_MS + 1_000).keys == ()
    met = store.read(PK)
    assert met is not None
    assert met.due == NOT_INDEXED

    turn = Reschedule(pk=PK, seen=seen(met), due=Due(shard="0", at_ms=NOW_MS), attempts=1)

    assert store.write(turn) == Written()
    assert store.due("0", NOW_MS).keys == (PK,)
