"""Where an answer is stored: in its record (maybe compressed), a companion item, or a bucket.

DynamoDB bills a failed condition by the size of the record. So an answer is stored in the record
only if it fits into the write units that the record needs anyway. A duplicate then costs the same
for every answer size: one write unit, if the tenant, principal and key have usual lengths.
"""

from __future__ import annotations

import hashlib
import zlib
from enum import StrEnum
from typing import TYPE_CHECKING

from oncekey.record.policy import IETF_NAME
from oncekey.settings import RECONCILE_GRACE_MS
from oncekey.value import Value, field

if TYPE_CHECKING:
    from oncekey.record.policy import Policy
    from oncekey.record.record import Record

_WRITE_UNIT_BYTES = 1_024
# The names of a completed record's attributes, its numbers, status and effects, and a reserve.
_RECORD_OVERHEAD_BYTES = 260
# The name of a policy's attribute, and the two fields that every policy stores.
_POLICY_BYTES = 40
# Each other field, stored only if it differs from its default.
_POLICY_FIELD_BYTES = 18
# A finished step without its name and result, and the mark of a started step.
_STEP_BYTES = 40
_MARK_BYTES = 120
# The step's mark, then its name and result; then an answer and a reason; all at their longest.
_LARGEST_STEP_BYTES = 8_000
# DynamoDB's limit for an item is 400 KB, key and names included.
LARGEST_COMPANION_BYTES = 400_000
# A few compressed bytes can expand to more than the memory holds. Lambda's answers have at most
# 6 MB; only the result of a function may be larger.
LARGEST_TEXT_BYTES = 32 * 1024 * 1024
# Reading or writing an object of some megabytes takes longer than an item does.
OBJECT_CALL_TIMEOUT_MS = 3_000


class Place(StrEnum):
    """Where an answer is stored outside its record."""

    ITEM = "item"
    OBJECT = "object"


class StoredRef(Value, kw_only=True):
    """The place of an answer that is stored outside its record; `digest` detects damage."""

    place: Place
    name: str
    digest: str


class NotKept(Value):
    """The work was done, but its answer could not be stored; `reason` says why."""

    reason: str


# What an erased record has in the place of its answer, and by its reason in the place of its
# tenant.
ERASED = NotKept("erased")

# In the record itself, an answer is text, or bytes if it is compressed.
StoredAnswer = str | bytes | StoredRef | NotKept


class Blob(Value, kw_only=True):
    """Bytes to be stored outside a record. `expires_at_s` is 0 if they do not expire."""

    at: StoredRef
    data: bytes = field(repr=False)
    expires_at_s: int


class AnswerDamaged(ValueError):  # noqa: N818 -- a property of what is stored
    """The stored answer is missing, incomplete or damaged."""


def place_answer(
    text: str, record: Record, *, expires_at_s: int, has_bucket: bool
) -> tuple[StoredAnswer, Blob | None]:
    """What the completed `record` stores for the answer `text`.

    A returned blob must be stored before the record is completed.
    """
    raw = text.encode("utf-8")
    # The free bytes in the write units that the record needs anyway.
    room = -_size_without_answer(record) % _WRITE_UNIT_BYTES
    name = f"{record.pk}#{record.owner}"
    return _placed(raw, room, name, expires_at_s, "answers/" if has_bucket else None)


def place_result(
    text: str, step_name: str, record: Record, *, has_bucket: bool
) -> tuple[StoredAnswer, Blob | None]:
    """The same for the result of a step of the running `record`.

    A result outside the record does not expire before the record is completed, because a retry
    needs it.
    """
    taken = _size_without_answer(record) + _size_of_request(record) + _MARK_BYTES
    room = -taken % _WRITE_UNIT_BYTES
    name = f"{record.pk}#{record.owner}#{step_name}"
    return _placed(text.encode("utf-8"), room, name, 0, "results/" if has_bucket else None)


def has_room_for_step(record: Record) -> bool:
    """Whether the record has room for one more step and then its ending.

    This is checked before the step runs. A result that does not fit could be neither recorded nor
    settled.
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
        # The work is done, and the record must say so even without its answer.
        return NotKept("answer-too-large"), None
    if len(packed) <= room:
        return packed, None
    digest = hashlib.sha256(packed).hexdigest()
    if len(packed) <= LARGEST_COMPANION_BYTES:
        at = StoredRef(place=Place.ITEM, name=name, digest=digest)
    elif prefix is not None:
        # A lifecycle rule of the bucket may remove `answers/`, but never `results/`.
        at = StoredRef(place=Place.OBJECT, name=prefix + name, digest=digest)
    else:
        return NotKept("answer-too-large"), None
    return at, Blob(at=at, data=packed, expires_at_s=expires_at_s)


def opened(stored: StoredAnswer | None, blob: bytes | None) -> str:
    """The text of the answer. `blob` is the content read from its `StoredRef`, if it has one.

    Raises:
        AnswerDamaged: the answer was never stored, is missing or damaged, or is larger than any
            that is stored.
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
        raw = inflater.decompress(packed, LARGEST_TEXT_BYTES)
        # The data of a whole answer ends within the limit, and nothing follows it.
        is_whole = inflater.eof and not inflater.unused_data
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
        record.traceparent,
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
        policy.grace_ms != RECONCILE_GRACE_MS,
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
