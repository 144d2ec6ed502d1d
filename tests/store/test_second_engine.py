"""The store's contract and its races, on a second engine: ministack's DynamoDB.

Unlike moto it carries out requests side by side, and it knows client tokens. How it, moto and AWS
differ is in layer/docs/design/engines.md.
"""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from infra.local_deployment.ministack import ministack_cloud
from infra.service_resources import IDEMPOTENCY
from oncekey import DynamoDBStore
from oncekey.errors import StoreError
from oncekey.outbox import Worker, delivered
from oncekey.outbox.relay import OutboxRelay
from oncekey.record.commit import Commit, ConditionsFailed
from oncekey.record.record import Effects, Status
from oncekey.record.transitions import (
    Complete,
    FinishStep,
    MarkUnknown,
    Release,
    Reserve,
    Resume,
    Settle,
    StartStep,
    TakeOver,
)
from oncekey.store.dynamodb import schema
from oncekey.store.dynamodb.outbox import OutboxTable
from oncekey.store.sqs import SqsQueue
from oncekey.store.store import Refused, Written
from oncekey.testing import StoreContract
from oncekey.testing.contract_samples import (
    CHARGED,
    DOUBT,
    ENDING,
    LEASE,
    NOW_MS,
    PK,
    RECORD,
    RETRY,
    SEEN,
    STARTED,
    count,
    fresh_token,
    message,
)
from oncekey_local.events.batch_event import change_record, message_record
from oncekey_local.store.tables import create_table_request
from tests.store.test_store_contract import all_transitions, check_agreement
from tests.support.dynamodb import TABLE
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infra.local_deployment.cloud import Cloud
    from oncekey.record.transitions import Transition

# Ministack takes seconds to start.
pytestmark = pytest.mark.proof

RACES = 20
_numbers = itertools.count()


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    """An account of its own."""
    with ministack_cloud() as cloud:
        yield cloud


@pytest.fixture(scope="module")
def client(cloud: Cloud) -> Any:
    """A client of DynamoDB there."""
    return cloud.client("dynamodb")


class TestContract(StoreContract):
    """The contract that every store is held against."""

    # `test_the_second_engine_and_the_reference_agree` compares more of them.
    test_a_transition_is_permitted_exactly_when_the_rules_permit_it = None  # type: ignore[assignment]

    @pytest.fixture
    def store(self, client: Any) -> DynamoDBStore:
        """A store on empty tables."""
        return store_on_new_tables(client)

    def published(self, store: Any) -> list[str]:
        """The ids in the outbox table."""
        items = store._connected().scan(TableName=store._outbox)["Items"]
        return [item["id"]["S"] for item in items]


def store_on_new_tables(client: Any) -> DynamoDBStore:
    """A store on tables of its own, without a TTL: ministack deletes what has expired each minute.

    The tests' time is in the past.
    """
    number = next(_numbers)
    records, outbox = f"records-{number}", f"outbox-{number}"
    client.create_table(**schema.IDEMPOTENCY.create_request(records))
    client.create_table(**schema.OUTBOX.create_request(outbox))
    return DynamoDBStore(records, client=client, outbox=outbox)


@pytest.fixture(scope="module")
def agreed(client: Any) -> DynamoDBStore:
    """A store on the table that `check_agreement` fills."""
    client.create_table(**create_table_request(TABLE, IDEMPOTENCY))
    return DynamoDBStore(TABLE, client=client)


def _one_of_each() -> dict[str, Transition]:
    """The first transition of each class."""
    found: dict[str, Transition] = {}
    for _, transition in all_transitions():
        found.setdefault(type(transition).__name__, transition)
    return found


@pytest.mark.parametrize("name", _one_of_each())
def test_the_second_engine_and_the_reference_agree(
    client: Any, agreed: DynamoDBStore, name: str
) -> None:
    """Each kind of transition is permitted by this engine, for every record that makes a difference
    to it, exactly when the rules permit it.

    Red when a condition means another thing to another engine.
    """
    check_agreement(client, agreed, _one_of_each()[name])


def at_once(work: Callable[[Any], Any], *given: Any) -> list[Any]:
    """What `work` returns for each of these, or raises, in threads that begin together."""
    ready = threading.Barrier(len(given))

    def begin(each: Any) -> Any:
        ready.wait()
        try:
            return work(each)
        except StoreError as error:
            return error

    with ThreadPoolExecutor(len(given)) as pool:
        return list(pool.map(begin, given))


IN_STEP = replace(RECORD, effects=Effects.RECORDED)
DEAD = replace(IN_STEP, lease_until_ms=NOW_MS - 1)
FAILED = replace(RECORD, status=Status.FAILED_RETRYABLE, lease_until_ms=None, due=None)
UNKNOWN = replace(RECORD, status=Status.UNKNOWN)


def _takes_over(pk: str, owner: str) -> Transition:
    return TakeOver(pk=pk, seen=SEEN, lease=replace(LEASE, owner=owner), now_ms=NOW_MS)


# Of each pair only one may be applied: the record that both know, and two writes of it.
CONFLICTS: dict[str, tuple[Any, Callable[[str], Transition], Callable[[str], Transition]]] = {
    "reserve, reserve": (
        None,
        lambda pk: Reserve(record=replace(RECORD, pk=pk, owner="owner-8"), now_ms=NOW_MS),
        lambda pk: Reserve(record=replace(RECORD, pk=pk, owner="owner-9"), now_ms=NOW_MS),
    ),
    "resume, resume": (
        FAILED,
        lambda pk: Resume(pk=pk, seen=SEEN, lease=replace(LEASE, owner="owner-8")),
        lambda pk: Resume(pk=pk, seen=SEEN, lease=LEASE),
    ),
    "takeover, takeover": (
        DEAD,
        lambda pk: _takes_over(pk, "owner-8"),
        lambda pk: _takes_over(pk, "owner-9"),
    ),
    "takeover, its late owner completes": (
        DEAD,
        lambda pk: _takes_over(pk, "owner-9"),
        lambda pk: Complete(pk=pk, owner="owner-1", ending=ENDING),
    ),
    "start, release": (
        IN_STEP,
        lambda pk: StartStep(pk=pk, owner="owner-1", step=STARTED),
        lambda pk: Release(pk=pk, owner="owner-1", retry=RETRY),
    ),
    "the same step finished twice": (
        IN_STEP,
        lambda pk: FinishStep(pk=pk, owner="owner-1", step=CHARGED, mark=None),
        lambda pk: FinishStep(pk=pk, owner="owner-1", step=CHARGED, mark=None),
    ),
    "settled, completed late": (
        UNKNOWN,
        lambda pk: Settle(pk=pk, seen_owner="owner-1", new_owner="owner-9", to=RETRY),
        lambda pk: Complete(pk=pk, owner="owner-1", ending=ENDING),
    ),
    "unknown, released": (
        RECORD,
        lambda pk: MarkUnknown(pk=pk, owner="owner-1", doubt=DOUBT),
        lambda pk: Release(pk=pk, owner="owner-1", retry=RETRY),
    ),
}


@pytest.mark.parametrize("name", CONFLICTS)
@pytest.mark.parametrize("way", ["write", "commit"])
def test_of_two_writers_of_one_condition_one_is_applied(client: Any, name: str, way: str) -> None:
    """Two threads that know the same record and write at once: one write is applied, and the other
    one is refused and shows what was written, or met a transaction and is sent again.

    Red when an engine's condition and write are two steps.
    """
    begun, one, other = CONFLICTS[name]
    store = store_on_new_tables(client)

    def play(transition: Transition) -> Any:
        if way == "write":
            return store.write(transition)
        return store.commit(Commit(transition=transition, token=fresh_token()))

    for race in range(RACES):
        pk = f"{PK}-{race}"
        if begun is not None:
            store.write(Reserve(record=replace(begun, pk=pk), now_ms=NOW_MS))

        replies = at_once(play, one(pk), other(pk))

        assert replies.count(Written()) == 1, replies
        (lost,) = [reply for reply in replies if reply != Written()]
        is_contended = isinstance(lost, StoreError) and lost.contention is not None
        assert is_contended or lost == Refused(store.read(pk)), lost


def test_one_commit_sent_by_many_at_once_is_applied_once(client: Any) -> None:
    """The same bytes under the same client token, eight times at once: one transaction, and each
    sender that gets an answer is told that it was applied.

    Red when a token is not recognised: all but one would be refused by their own write.
    """
    store = store_on_new_tables(client)
    for race in range(RACES):
        commit = Commit(
            transition=Reserve(record=replace(RECORD, pk=f"{PK}-{race}"), now_ms=NOW_MS),
            token=fresh_token(),
            messages=(message(f"message-{race}"),),
            counts=(count(limit=1_000),),
        )

        replies = at_once(store.commit, *[commit] * 8)

        answered = [reply for reply in replies if not isinstance(reply, StoreError)]
        assert set(answered) == {Written()}, replies
        assert all(reply.contention for reply in replies if isinstance(reply, StoreError))
        counter = store.counter("q1#contract")
        assert counter is not None
        assert counter.count == race + 1
    assert len(TestContract().published(store)) == RACES


def test_another_commit_under_a_token_in_use_is_a_mistake(client: Any) -> None:
    """A token belongs to its bytes: other ones under it are refused, and nothing is written.

    Red when a commit could be taken for another one, and be told that it was applied.
    """
    store = store_on_new_tables(client)
    commit = Commit(transition=Reserve(record=RECORD, now_ms=NOW_MS), token=fresh_token())
    assert store.commit(commit) == Written()
    other = replace(commit, transition=Complete(pk=PK, owner="owner-1", ending=ENDING))

    with pytest.raises(StoreError, match="IdempotentParameterMismatch") as refusal:
        store.commit(other)

    assert not refusal.value.transient
    assert store.read(PK) == RECORD


def test_the_last_place_of_a_quota_is_given_once(client: Any) -> None:
    """Eight new keys at once for three places: never more than three are reserved, and the counter
    says how many.

    Red when a counter's condition and its sum are two steps.
    """
    store = store_on_new_tables(client)

    def reserve(number: int) -> Any:
        fresh = Reserve(record=replace(RECORD, pk=f"{PK}-{number}"), now_ms=NOW_MS)
        return store.commit(Commit(transition=fresh, token=fresh_token(), counts=(count(limit=3),)))

    replies = at_once(reserve, *range(8))

    written = replies.count(Written())
    counter = store.counter("q1#contract")
    assert counter is not None
    assert 1 <= written == counter.count <= 3
    others = [reply for reply in replies if reply != Written()]
    assert all(isinstance(reply, ConditionsFailed | StoreError) for reply in others)


def test_a_message_goes_from_the_stream_to_the_queue_to_its_worker(cloud: Cloud) -> None:
    """The engine's own stream records are relayed to its own queue, deleted from the outbox table
    only then, and read by a worker as they were published.

    Red when the relay or the worker depends on how moto writes a record or a message.
    """
    dynamodb = cloud.client("dynamodb")
    store = store_on_new_tables(dynamodb)
    outbox = store._outbox
    sqs = cloud.client("sqs")
    url = sqs.create_queue(QueueName="work")["QueueUrl"]
    queue = SqsQueue(url, client=sqs)
    published = [message(f"message-{number}") for number in range(3)]
    store.commit(Commit(transition=None, token=fresh_token(), messages=tuple(published)))

    relay = OutboxRelay(table=OutboxTable(outbox, client=dynamodb), queue=queue)
    answer = relay({"Records": stream_records(cloud, outbox)}, None)

    assert answer == {"batchItemFailures": []}
    assert TestContract().published(store) == []
    received = sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"], WaitTimeSeconds=1
    )["Messages"]
    worked: list[str] = []
    worker = Worker(lambda record, _: worked.append(delivered(record["body"]).id), queue=queue)
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    records = [message_record(each, arn["QueueArn"]) for each in received]
    assert worker({"Records": records}, None) == {"batchItemFailures": []}
    assert sorted(worked) == [each.id for each in published]


def stream_records(cloud: Cloud, table: str) -> list[dict[str, Any]]:
    """What the table's stream holds, as Lambda's poller hands it on."""
    arn = cloud.client("dynamodb").describe_table(TableName=table)["Table"]["LatestStreamArn"]
    streams = cloud.client("dynamodbstreams")
    records: list[dict[str, Any]] = []
    for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
        where = {"StreamArn": arn, "ShardId": shard["ShardId"]}
        start = streams.get_shard_iterator(**where, ShardIteratorType="TRIM_HORIZON")
        found = streams.get_records(ShardIterator=start["ShardIterator"])["Records"]
        records += [change_record(change, arn) for change in found]
    return records
