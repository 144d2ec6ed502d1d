"""Accepting an event: its completed record and its message are written in one transaction."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from oncekey.effects.outbox import Outbox, Source
from oncekey.effects.transaction import Collected
from oncekey.errors import StoreError
from oncekey.flow import retry
from oncekey.http.fingerprint import selected_fingerprint
from oncekey.record.commit import Commit, claimed, token
from oncekey.record.policy import Encoding, Policy
from oncekey.record.record import Effects, Record, Status
from oncekey.record.transitions import Reserve
from oncekey.store.store import Refused, Written
from oncekey.telemetry import requests as telemetry
from oncekey.telemetry import watching
from oncekey.telemetry import webhooks as webhook_telemetry

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.engine.store_state import StoreState
    from oncekey.flow.retry import Budget
    from oncekey.record.identity import Identity
    from oncekey.settings import Settings
    from oncekey.store.store import Store
    from oncekey.webhooks.delivery import Publish

# The stored answer. Every repeat gets its own 200.
_STORED_ANSWER = '{"statusCode":200}'


class Receipt(Enum):
    """The outcome of a delivery."""

    ACCEPTED = auto()
    REPEAT = auto()
    IGNORED = auto()
    NOT_SEEN = auto()
    PAUSED = auto()


def completed_record(
    identity: Identity, clock: Clock, *, operation_id: str, owner: str, retention_s: int
) -> Record:
    """The record of an event that is accepted now. It is completed: a worker does the work."""
    now_ms = clock.now_ms()
    policy = Policy(encoding=Encoding.HTTP, retention_s=retention_s)
    return Record(
        pk=identity.pk,
        status=Status.COMPLETED,
        rev=1,
        tenant=identity.tenant,
        operation=identity.operation,
        key=identity.key,
        operation_id=operation_id,
        # The fingerprint of a call without arguments: only the event's id identifies it.
        fingerprint=selected_fingerprint(None).current,
        owner=owner,
        attempt=1,
        effects=Effects.RECORDED,
        created_at_ms=now_ms,
        completed_at_ms=now_ms,
        expires_at_s=policy.expires_at_s(now_ms),
        response=_STORED_ANSWER,
        response_version=1,
        policy=policy,
        traceparent=watching.traceparent(),
    )


def collected(published: Publish, record: Record, store: Store) -> Collected:
    """The message of `record`'s event, checked.

    Raises:
        TransactionInvalid: its payload is not JSON, or is too large without a bucket.
    """
    messages = Collected()
    source = Source(
        operation_id=record.operation_id,
        operation=record.operation,
        tenant=record.tenant,
        owner=record.owner,
        now_ms=lambda: record.created_at_ms,
        position=lambda: 0,
        has_outbox=lambda: store.has_outbox,
        has_bucket=lambda: store.has_bucket,
        traceparent=record.traceparent,
    )
    Outbox(messages, lambda _what: None, source).publish(published.topic, published.payload)
    return messages


async def accept(record: Record, messages: Collected, budget: Budget, clock: Clock) -> Receipt:
    """Write `record` and its message, unless the event is already on record.

    When it returns `ACCEPTED`, both are durable, and the message will be sent. When it returns
    `REPEAT`, nothing was written.

    Raises:
        StoreError: the store did not answer within `budget`, or refused the write. Both may have
            been written, or neither. The next delivery of the event is then a repeat, or accepted.
    """
    for blob in claimed(messages.messages):
        await retry.save(blob, budget, clock)
    whole = Commit(
        transition=Reserve(record=record, now_ms=record.created_at_ms),
        token=token(record.operation_id, record.owner, 0),
        messages=tuple(messages.messages),
    )
    reply = await retry.commit(whole, budget, clock, lambda found: found == record)
    match reply:
        case Written():
            telemetry.accepted(record, clock.now_ms())
            return Receipt.ACCEPTED
        case Refused(record=Record() as met) if met.owner == record.owner:
            # Our own write was applied, and its reply was lost.
            return Receipt.ACCEPTED
        case Refused(record=Record(status=Status.COMPLETED) as met):
            telemetry.replayed(met, clock.now_ms())
            return Receipt.REPEAT
        case Refused(record=Record() as met):
            # A 2xx would lose the event, because its message was not written.
            webhook_telemetry.foreign_record(met.operation, met.status)
            raise StoreError("the record is no webhook's", transient=False)
        case _:
            raise StoreError("the event cannot be accepted", transient=False)


async def accept_unless_paused(
    record: Record,
    messages: Collected,
    settings: Settings,
    store_state: StoreState,
    budget: Budget,
    clock: Clock,
) -> Receipt:
    """The same as `accept`, or `PAUSED` if the event is new and an operator has paused new work.

    The sender must then send the event again: a 2xx would lose it, as nothing was written.
    """
    from oncekey.engine.pausing import paused_for, refusal_of

    operation, tenant = record.operation, record.tenant
    pause = await paused_for(operation, tenant, settings, store_state, budget, clock)
    if pause is None:
        return await accept(record, messages, budget, clock)
    receipt = await _seen(record.pk, budget, clock)
    if receipt is not Receipt.NOT_SEEN:
        return receipt
    refusal_of(pause, operation)
    return Receipt.PAUSED


async def is_on_record(identity: Identity, budget: Budget, clock: Clock) -> Receipt:
    """`REPEAT` if the event was accepted before, else `NOT_SEEN`.

    Raises:
        StoreError: the store did not answer within `budget`.
    """
    return await _seen(identity.pk, budget, clock)


async def _seen(pk: str, budget: Budget, clock: Clock) -> Receipt:
    met = await retry.read(pk, budget, clock)
    if met is None or met.status is not Status.COMPLETED or met.is_expired(clock.now_ms()):
        return Receipt.NOT_SEEN
    return Receipt.REPEAT
