"""One commit: a transition of the record, and the writes that are applied together with it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from oncekey.errors import ConditionFailed, TransactionInvalid
from oncekey.record.stored_answer import Blob
from oncekey.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from oncekey.errors import RefusedWrite
    from oncekey.record.business_write import BusinessWrite
    from oncekey.record.counter import Count, RefusedCount
    from oncekey.record.message import Message
    from oncekey.record.stored_answer import StoredRef
    from oncekey.record.transitions import Transition


class Commit(Value, kw_only=True):
    """What one transaction applies. It is built once, and a retry sends it unchanged.

    `transition` is the fence: if its condition fails, nothing is applied. It is None if the commit
    belongs to no record. `token` lets DynamoDB recognise a repeated transaction for ten minutes;
    protection against a second application does not depend on it. `companion` is the answer's own
    item. `expiring` lists the companions of results that the record no longer needs, each with its
    new expiry. `counts` are the counters of a new key.
    """

    transition: Transition | None
    token: str
    writes: tuple[BusinessWrite, ...] = ()
    messages: tuple[Message, ...] = ()
    companion: Blob | None = None
    expiring: tuple[tuple[StoredRef, int], ...] = ()
    counts: tuple[Count, ...] = ()


class ConditionsFailed(Value):
    """The record's condition held, and conditions of the author's writes or of counters did not.

    Nothing was applied.
    """

    writes: tuple[RefusedWrite, ...]
    counts: tuple[RefusedCount, ...] = ()


class Inapplicable(Value):
    """DynamoDB refuses the transaction as invalid, on every attempt. Nothing was applied."""

    reason: str


def token(operation_id: str, owner: str, number: int) -> str:
    """The client request token of an attempt's commit with this number, from 0."""
    return str(uuid.uuid5(uuid.UUID(operation_id), f"commit {owner} {number}"))


def claimed(messages: Iterable[Message]) -> list[Blob]:
    """The large payloads that must be stored before the messages that point to them."""
    return [
        Blob(at=message.payload_ref, data=message.payload.encode("utf-8"), expires_at_s=0)
        for message in messages
        if message.payload_ref is not None
    ]


def error_of(commit: Commit, reply: ConditionsFailed | Inapplicable) -> Exception:
    """The exception that tells the author why the collected writes were refused."""
    if isinstance(reply, Inapplicable):
        return TransactionInvalid(f"DynamoDB refuses the transaction: {reply.reason}")
    failed = {write.number for write in reply.writes}
    for write in commit.writes:
        if write.number in failed and write.otherwise is not None:
            # The author's object may have been raised before, with frames of another request.
            return write.otherwise.with_traceback(None)
    return ConditionFailed(reply.writes)
