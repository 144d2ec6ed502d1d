"""Samples for the contract of a store: records in every state, and each kind of transition."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from oncekey.clock import SystemClock
from oncekey.record.commit import token
from oncekey.record.counter import Count
from oncekey.record.message import Message
from oncekey.record.policy import Encoding, Policy
from oncekey.record.record import Due, Effects, Record, Status
from oncekey.record.steps import NO_STEPS, FinishedStep, StartedStep, Steps
from oncekey.record.stored_answer import NotKept, Place, StoredRef
from oncekey.record.transitions import (
    Begin,
    ClearStep,
    Complete,
    Doubt,
    Ending,
    Enqueue,
    ExpireLease,
    FinishStep,
    LateEffect,
    Lease,
    MarkUnknown,
    Release,
    Reschedule,
    Reserve,
    Resume,
    Retry,
    Seen,
    Settle,
    SettlePending,
    SettleStep,
    StartStep,
    TakeOver,
    TimeOut,
    Transition,
    Waiting,
)
from oncekey.value import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey.record.stored_answer import StoredAnswer

PK = "v1#contract"
NOW_MS = 1_700_000_000_000
ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
DUE = Due(shard="5", at_ms=NOW_MS + 60_000)
STARTED = StartedStep(name="charge", position=1, mark=3, at_ms=NOW_MS)
FINISHED = FinishedStep(name="order", position=0, at_ms=NOW_MS, result='{"id":1}')
CHARGED = FinishedStep(name="charge", position=1, at_ms=NOW_MS, result='{"id":2}')
RECORD = Record(
    pk=PK,
    status=Status.IN_PROGRESS,
    rev=1,
    tenant="tenant-1",
    operation="POST /payments",
    key="a-key-of-sixteen",
    operation_id=ID,
    fingerprint="f1:asked",
    owner="owner-1",
    attempt=1,
    effects=Effects.UNRECORDED,
    created_at_ms=NOW_MS,
    lease_until_ms=NOW_MS + 30_000,
    due=DUE,
    policy=Policy(encoding=Encoding.HTTP, retention_s=86_400),
)
# An answer in its record, as text and compressed; outside it; and one that is not stored at all.
ANSWERS: tuple[StoredAnswer, ...] = (
    '{"statusCode":201,"body":"zwölf €"}',
    bytes(range(256)),
    StoredRef(place=Place.ITEM, name=f"{PK}#owner-1", digest="d"),
    StoredRef(place=Place.OBJECT, name="answers/owner-1", digest="d"),
    NotKept("answer-not-storable"),
)
SEEN = Seen(owner="owner-1", rev=1)
LEASE = Lease(owner="owner-9", until_ms=NOW_MS + 40_000, due=DUE, effects=Effects.RECORDED)
ENDING = Ending(
    response='{"statusCode":201}',
    completed_at_ms=NOW_MS,
    expires_at_s=NOW_MS // 1000 + 86_400,
)
RETRY = Retry(reason="NotExecuted", expires_at_s=NOW_MS // 1000 + 3_600)
DOUBT = Doubt(reason="lease-expired", due=DUE)
WAITING = Waiting(owner="owner-9", due=DUE, effects=Effects.RECORDED, request_digest="digest")
# The owner and the version that a writer knows: the record's, or others.
KNOWN = {
    "its owner": SEEN,
    "another owner": Seen(owner="owner-2", rev=1),
    "another revision": Seen(owner="owner-1", rev=2),
}


def fresh_token() -> str:
    """A token that no commit has had, because a database remembers them.

    DynamoDB does so for ten minutes, for all tables of an account.
    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
    """
    return token(SystemClock().new_operation_id(), "owner-1", 0)


def transitions(pk: str, seen: Seen) -> list[Transition]:
    """One of each, by a writer that knows the record as `seen`."""
    owner = seen.owner
    return [
        Reserve(record=replace(RECORD, pk=pk, owner="owner-9"), now_ms=NOW_MS),
        Resume(pk=pk, seen=seen, lease=LEASE),
        TakeOver(pk=pk, seen=seen, lease=LEASE, now_ms=NOW_MS),
        ExpireLease(pk=pk, seen=seen, now_ms=NOW_MS, to=DOUBT),
        ExpireLease(pk=pk, seen=seen, now_ms=NOW_MS, to=RETRY),
        Complete(pk=pk, owner=owner, ending=ENDING),
        Release(pk=pk, owner=owner, retry=RETRY),
        MarkUnknown(pk=pk, owner=owner, doubt=DOUBT),
        Settle(pk=pk, seen_owner=owner, new_owner="owner-9", to=ENDING),
        Settle(pk=pk, seen_owner=owner, new_owner="owner-9", to=RETRY),
        SettleStep(pk=pk, seen_owner=owner, new_owner="owner-9", retry=RETRY, finished=CHARGED),
        SettleStep(pk=pk, seen_owner=owner, new_owner="owner-9", retry=RETRY, cleared="charge"),
        LateEffect(pk=pk, seen=seen, new_owner="owner-9", ending=ENDING),
        Enqueue(pk=pk, seen=seen, waiting=WAITING),
        Begin(pk=pk, seen_owner=owner, lease=LEASE),
        TimeOut(pk=pk, seen_owner=owner, ending=ENDING),
        SettlePending(pk=pk, seen=seen, new_owner="owner-9", ending=ENDING),
        StartStep(pk=pk, owner=owner, step=STARTED),
        FinishStep(pk=pk, owner=owner, step=CHARGED, mark=STARTED.mark),
        FinishStep(pk=pk, owner=owner, step=CHARGED, mark=None),
        ClearStep(pk=pk, owner=owner, step=STARTED),
        Reschedule(pk=pk, seen=seen, due=DUE, attempts=3),
    ]


def records() -> Iterator[Record]:
    """Records in every state that makes a difference to a condition."""
    for status, lease_ms, effects in itertools.product(
        Status, (NOW_MS + 30_000, NOW_MS - 1), (Effects.UNRECORDED, Effects.REPEATABLE)
    ):
        yield replace(RECORD, status=status, lease_until_ms=lease_ms, effects=effects)
    for status, steps in itertools.product(
        Status,
        (NO_STEPS, Steps(finished=(FINISHED,)), Steps(finished=(FINISHED,), started=STARTED)),
    ):
        yield replace(
            RECORD,
            status=status,
            lease_until_ms=NOW_MS - 1,
            effects=Effects.RECORDED,
            steps=steps,
        )
    for status, expires_at_s in itertools.product(
        (Status.COMPLETED, Status.FAILED_RETRYABLE), (NOW_MS // 1000, NOW_MS // 1000 + 1)
    ):
        yield replace(
            RECORD, status=status, expires_at_s=expires_at_s, due=None, lease_until_ms=None
        )
    for status in (Status.PENDING, Status.FAILED_RETRYABLE):
        yield replace(RECORD, status=status, attempt=2, effects=Effects.RECORDED)


def whole_records() -> Iterator[Record]:
    """Records with a value in every field, and with each form of an answer and of a request."""
    now_s = NOW_MS // 1000
    whole = replace(
        RECORD,
        key="a key: 'quoted', \\ 12",
        principal="arn:aws:iam::1:user/Zoë",
        attempt=2,
        effects=Effects.RECORDED,
        completed_at_ms=NOW_MS,
        response_version=2,
        reconcile_attempts=3,
        last_error="lease-expired",
        escalated_at_ms=NOW_MS,
        request_digest="digest",
        policy=Policy(
            encoding=Encoding.RESULT,
            retention_s=3_600,
            gone_for_s=60,
            response_version=2,
            preset="stripe",
            is_queued=True,
            grace_ms=1,
        ),
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )
    for request, answer in itertools.product(('{"body":"é"}', b"\x00\xff"), ANSWERS):
        step = replace(CHARGED, result=answer, is_final=True)
        steps = Steps(finished=(replace(FINISHED, result=None), step))
        yield replace(
            whole,
            status=Status.COMPLETED,
            steps=steps,
            response=answer,
            request=request,
            expires_at_s=now_s + 60,
        )
        yield replace(whole, status=Status.UNKNOWN, steps=steps.starting(STARTED), request=request)
    yield replace(whole, policy=None)


def count(*, limit: int) -> Count:
    """One more of a counter that may come to `limit`."""
    now_s = NOW_MS // 1000
    return Count(
        name="q1#contract",
        tenant="tenant-1",
        limit=limit,
        expires_at_s=now_s + 90,
        runs_out_at_s=now_s + 60,
    )


def message(name: str) -> Message:
    """A message with the id `name`."""
    return Message(
        id=name,
        topic="payment.requested",
        payload='{"n":1}',
        operation_id=ID,
        operation="POST /payments",
        tenant="acme",
        created_at_ms=NOW_MS,
    )
