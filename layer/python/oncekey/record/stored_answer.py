"""Where an answer is kept: in its record, compressed there, in a companion item, or in a bucket.

A failed condition is billed by the size of the record that it meets, so an answer is kept in it
only where there is room in the write units that it takes anyway: a duplicate costs the same
whatever the size of the answer. With a tenant, principal and key of usual length that is one.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from oncekey.record.policy import IETF_NAME

if TYPE_CHECKING:
    from oncekey.record.policy import Policy
    from oncekey.record.record import Record

_WRITE_UNIT_BYTES = 1_024
# The names of a completed record's attributes, its numbers, status and effects, with some to spare.
_RECORD_OVERHEAD_BYTES = 260
# The names of a policy's attribute and of the two fields that each has, with their values.
_POLICY_BYTES = 40
# Each of the other fields, where it is not what is usual.
_POLICY_FIELD_BYTES = 18
# A finished step apart from its name and result, and the mark of one that is under way.
_STEP_BYTES = 40
_MARK_BYTES = 120
# Its mark, then its name and result; an answer and a reason; all with the longest names.
_LARGEST_STEP_BYTES = 8_000
# DynamoDB's limit for an item is 400 KB, key and names included.
LARGEST_COMPANION_BYTES = 400_000
# A few bytes can inflate to more than any memory holds. Lambda answers with 6 MB at most; only the
# result of a function, in the bucket, may have more.
LARGEST_TEXT_BYTES = 32 * 1024 * 1024
# An object of some megabytes takes longer than an item does.
OBJECT_CALL_TIMEOUT_MS = 3_000


class Place(StrEnum):
    """Where the bytes of an answer are that are not in its record."""

    ITEM = "item"
    OBJECT = "object"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRef:
    """An answer that is kept beside its record; `digest` tells a damaged one from the real one."""

    place: Place
    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class NotKept:
    """The work was done and its answer could not be kept; `reason` says why."""

    reason: str


# In the record itself an answer is text, or bytes if it is compressed.
StoredAnswer = str | bytes | StoredRef | NotKept


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """Bytes to be kept beside a record until some time after its expiry; 0 where it has none."""

    at: StoredRef
    data: bytes = field(repr=False)
    expires_at_s: int


class AnswerDamaged(ValueError):  # noqa: N818 -- a property of what is stored
    """What is stored is not the answer that was given."""


def place_answer(
    text: str, record: Record, *, expires_at_s: int, has_bucket: bool
) -> tuple[StoredAnswer, Blob | None]:
    """What stands in the completed `record` for the answer `text`, and what must be kept first."""
    raw = text.encode("utf-8")
    # What the record has left of the write units that it takes anyway.
    room = -_size_without_answer(record) % _WRITE_UNIT_BYTES
    name = f"{record.pk}#{record.owner}"
    return _placed(raw, room, name, expires_at_s, "answers/" if has_bucket else None)


def place_result(
    text: str, step_name: str, record: Record, *, has_bucket: bool
) -> tuple[StoredAnswer, Blob | None]:
    """The same for the result of a step of the running `record`.

    What is kept beside it does not expire before the record is completed: it is evidence.
    """
    taken = _size_without_answer(record) + _size_of_request(record) + _MARK_BYTES
    room = -taken % _WRITE_UNIT_BYTES
    name = f"{record.pk}#{record.owner}#{step_name}"
    return _placed(text.encode("utf-8"), room, name, 0, "results/" if has_bucket else None)


def has_room_for_step(record: Record) -> bool:
    """Whether the record can hold one more step, and then its ending.

    Asked before the step runs: a result that does not fit could neither be recorded nor settled.
    """
    taken = _size_without_answer(record) + _size_of_request(record)
    return taken + _LARGEST_STEP_BYTES <= LARGEST_COMPANION_BYTES


def _placed(
    raw: bytes, room: int, name: str, expires_at_s: int, prefix: str | None
) -> tuple[StoredAnswer, Blob | None]:
    if len(raw) <= room:
        return raw.decode("utf-8"), None
    if len(raw) > LARGEST_TEXT_BYTES:
        return NotKept("answer-too-large"), None
    try:
        packed = zlib.compress(raw)
    except MemoryError:
        # The work is done: that is recorded, if nothing else fits.
        return NotKept("answer-too-large"), None
    if len(packed) <= room:
        return packed, None
    digest = hashlib.sha256(packed).hexdigest()
    if len(packed) <= LARGEST_COMPANION_BYTES:
        at = StoredRef(place=Place.ITEM, name=name, digest=digest)
    elif prefix is not None:
        # A lifecycle rule may remove answers, and never what is evidence.
        at = StoredRef(place=Place.OBJECT, name=prefix + name, digest=digest)
    else:
        return NotKept("answer-too-large"), None
    return at, Blob(at=at, data=packed, expires_at_s=expires_at_s)


def opened(stored: StoredAnswer | None, blob: bytes | None) -> str:
    """The text of the answer, given the bytes that were found where it says that they are.

    Raises:
        AnswerDamaged: the answer was never kept, is missing, is not the one that was kept, or would
            be larger than any that is kept.
    """
    match stored:
        case str():
            return stored
        case bytes():
            return _unpacked(stored)
        case StoredRef():
            if blob is None:
                raise AnswerDamaged("the stored answer is missing")
            if hashlib.sha256(blob).hexdigest() != stored.digest:
                raise AnswerDamaged("the stored answer is damaged")
            return _unpacked(blob)
        case NotKept():
            raise AnswerDamaged(stored.reason)
        case None:
            raise AnswerDamaged("the record has no answer")


def _unpacked(packed: bytes) -> str:
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(packed, LARGEST_TEXT_BYTES + 1)
        # Whoever wrote a whole one wrote nothing after it.
        is_whole = inflater.eof and not inflater.unused_data and len(raw) <= LARGEST_TEXT_BYTES
        text = raw.decode("utf-8") if is_whole else None
    except (zlib.error, UnicodeDecodeError) as error:
        raise AnswerDamaged("the stored answer is damaged") from error
    if text is None:
        raise AnswerDamaged("the stored answer is damaged, or larger than any that is stored")
    return text


def _size_without_answer(record: Record) -> int:
    texts = (
        record.pk,
        record.tenant,
        record.principal,
        record.operation,
        record.key,
        record.operation_id,
        record.fingerprint,
        record.owner,
    )
    steps = sum(
        _STEP_BYTES + len(step.name.encode("utf-8")) + _size(step.result)
        for step in record.steps.finished
    )
    overhead = _RECORD_OVERHEAD_BYTES + _policy_bytes(record.policy)
    return overhead + steps + sum(len(text.encode("utf-8")) for text in texts)


def _size_of_request(record: Record) -> int:
    digest_bytes = (
        0 if record.request_digest is None else _size(record.request_digest) + _STEP_BYTES
    )
    return _size(record.request) + digest_bytes


def _policy_bytes(policy: Policy | None) -> int:
    if policy is None:
        return 0
    unusual = (
        policy.gone_for_s > 0,
        policy.response_version != 1,
        policy.preset != IETF_NAME,
        policy.is_queued,
    )
    return _POLICY_BYTES + _POLICY_FIELD_BYTES * sum(unusual)


def _size(stored: StoredAnswer | None) -> int:
    match stored:
        case None:
            return 0
        case str():
            return len(stored.encode("utf-8"))
        case bytes():
            return len(stored)
        case StoredRef():
            return len(stored.name.encode("utf-8")) + len(stored.digest) + _STEP_BYTES
        case NotKept():
            return len(stored.reason.encode("utf-8")) + _STEP_BYTES
