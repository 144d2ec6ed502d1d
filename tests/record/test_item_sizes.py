"""What a record is said to need in its table, against DynamoDB's own count of its item."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from typing import TYPE_CHECKING

import pytest

from oncekey.record.policy import Encoding, Policy
from oncekey.record.record import Effects, Record, Status
from oncekey.record.steps import FinishedStep, Steps
from oncekey.record.stored_answer import (
    LARGEST_COMPANION_BYTES,
    LARGEST_TEXT_BYTES,
    AnswerDamaged,
    Blob,
    NotKept,
    Place,
    StoredAnswer,
    StoredRef,
    has_room_for_step,
    opened,
    place_answer,
    place_result,
)
from oncekey.store.dynamodb.codec import attribute_values
from oncekey.store.dynamodb.sizes import LARGEST_ITEM_BYTES, item_bytes
from tests.support.large_answers import PRINTABLE, text_of
from tests.support.records import NOW_MS, NOW_S, record
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable

UNIT_BYTES = 1_024
# The mark, the name and the result of a step, then the answer and the reason of an ending.
LONGEST_STEP_BYTES = 8_000
DIGEST = "d" * 64
UNUSUAL = Policy(
    encoding=Encoding.RESULT,
    retention_s=31_622_400,
    gone_for_s=31_622_400,
    response_version=999,
    preset="stripe",
    is_queued=True,
    grace_ms=86_400_000,
)
RUNNING = record(
    pk="v1#" + "p" * 43,
    owner="o" * 22,
    effects=Effects.RECORDED,
    request=None,
    traceparent="t" * 55,
)
ELSEWHERE = tuple(
    FinishedStep(
        name=f"step {number}",
        position=number,
        at_ms=NOW_MS,
        result=StoredRef(place=Place.OBJECT, name="n" * 80, digest=DIGEST),
    )
    for number in range(50)
)
RECORDS = {
    "plain": RUNNING,
    "no policy": replace(RUNNING, policy=None),
    "an unusual policy": replace(RUNNING, policy=UNUSUAL),
    "a request": replace(RUNNING, request="é" * 300, request_digest=DIGEST),
    "a compressed request": replace(RUNNING, request=zlib.compress(b"x" * 90)),
    "results elsewhere": replace(RUNNING, steps=Steps(finished=ELSEWHERE)),
}
EVERY_KIND = pytest.mark.parametrize("begun", RECORDS.values(), ids=RECORDS)
PLACES = ("an answer", "a result")


def size_of(it: Record) -> int:
    """The bytes that DynamoDB counts."""
    return item_bytes(attribute_values(it))


def with_step(begun: Record, result: StoredAnswer | None) -> Record:
    """The record after one more step."""
    step = FinishedStep(name="charge", position=90, at_ms=NOW_MS, result=result)
    return replace(begun, steps=begun.steps.finishing(step))


def completed(begun: Record, response: StoredAnswer | None) -> Record:
    """The record at its end."""
    return replace(
        begun,
        status=Status.COMPLETED,
        lease_until_ms=None,
        due=None,
        request=None,
        request_digest=None,
        escalated_at_ms=None,
        completed_at_ms=NOW_MS,
        expires_at_s=NOW_S,
        response=response,
        response_version=1,
    )


def placed(
    place: str, text: str, begun: Record, *, has_bucket: bool = True
) -> tuple[StoredAnswer, Blob | None]:
    """Where `text` is stored as the answer of `begun`, or as the result of its next step."""
    if place == "a result":
        return place_result(text, "charge", begun, has_bucket=has_bucket)
    return place_answer(text, begun, expires_at_s=NOW_S, has_bucket=has_bucket)


def room_of(place: str, begun: Record) -> int:
    """The longest text that stays in the record as it is."""
    text = text_of(PRINTABLE, UNIT_BYTES)

    def is_elsewhere(length: int) -> bool:
        return placed(place, text[:length], begun) != (text[:length], None)

    return bisect_left(range(UNIT_BYTES), x=True, key=is_elsewhere) - 1


@EVERY_KIND
def test_a_step_runs_only_if_its_record_stays_below_the_limit_of_an_item(begun: Record) -> None:
    """The last record that may run a step, and DynamoDB's count of it: the longest step and the
    ending fit, and what is kept free for numbers and names is some hundred bytes.
    """

    def grown(length: int) -> Record:
        return with_step(begun, "x" * length)

    lengths = range(LARGEST_ITEM_BYTES)
    largest = bisect_left(lengths, x=True, key=lambda n: not has_room_for_step(grown(n))) - 1

    left = LARGEST_COMPANION_BYTES - LONGEST_STEP_BYTES - size_of(grown(largest))
    assert 0 <= left < 300 + 30 * len(begun.steps.finished)
    assert size_of(grown(largest)) + LONGEST_STEP_BYTES < LARGEST_ITEM_BYTES


@EVERY_KIND
@pytest.mark.parametrize("place", PLACES)
def test_a_text_in_its_record_costs_no_write_unit_more(place: str, begun: Record) -> None:
    """At its longest, too, and whatever else the record stores."""
    longest = text_of(PRINTABLE, room_of(place, begun))
    make: Callable[[Record, str], Record] = completed if place == "an answer" else with_step

    with_text, without = (size_of(make(begun, each)) for each in (longest, ""))

    assert -(-with_text // UNIT_BYTES) == -(-without // UNIT_BYTES)


@EVERY_KIND
@pytest.mark.parametrize("place", PLACES)
def test_a_text_stays_in_its_record_while_there_is_room(place: str, begun: Record) -> None:
    """What the longest one leaves of its write unit is a reserve of some hundred bytes, whatever
    else the record stores.

    Red when a part of the record is counted twice or with the wrong sign.
    """
    longest = text_of(PRINTABLE, room_of(place, begun))
    make: Callable[[Record, str], Record] = completed if place == "an answer" else with_step

    left = -size_of(make(begun, longest)) % UNIT_BYTES

    assert left < 150 + 6 * len(begun.steps.finished)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "name", ["gone_for_s", "response_version", "preset", "is_queued", "grace_ms"]
)
def test_what_is_unusual_in_a_policy_takes_its_room(name: str, place: str) -> None:
    """A policy stores what differs from the defaults, and that alone leaves less room for a text.

    Red when what is usual is counted, or what is stored is not.
    """
    plain = replace(RUNNING, policy=Policy(encoding=Encoding.RESULT, retention_s=86_400))
    unusual = replace(plain, policy=replace(plain.policy, **{name: getattr(UNUSUAL, name)}))

    taken = (room_of(place, plain) - room_of(place, unusual)) % UNIT_BYTES

    assert size_of(unusual) - size_of(plain) <= taken <= 20


@pytest.mark.parametrize("place", PLACES)
def test_the_room_for_a_text_depends_on_the_last_unit_alone(place: str) -> None:
    """A record that needs one whole write unit more leaves the same room in its last one."""
    longer = replace(RUNNING, tenant=RUNNING.tenant + "x" * UNIT_BYTES)

    assert room_of(place, longer) == room_of(place, RUNNING) > 0


def test_a_large_result_is_stored_beside_its_record_without_end() -> None:
    """It is named after its step, and no rule of the bucket removes it before its operation ends.

    Without a bucket, a result that no item holds is not kept.
    """
    large, too_large = text_of(PRINTABLE, 10_000), text_of(PRINTABLE, 600_000)
    name = f"{RUNNING.pk}#{RUNNING.owner}#charge"

    for text, has_bucket, place, key in (
        (large, True, Place.ITEM, name),
        (large, False, Place.ITEM, name),
        (too_large, True, Place.OBJECT, f"results/{name}"),
    ):
        stored, blob = placed("a result", text, RUNNING, has_bucket=has_bucket)
        assert isinstance(stored, StoredRef)
        assert (stored.place, stored.name) == (place, key)
        assert blob == Blob(at=stored, data=zlib.compress(text.encode()), expires_at_s=0)
    not_kept = (NotKept("answer-too-large"), None)
    assert placed("a result", too_large, RUNNING, has_bucket=False) == not_kept


def test_a_text_of_32_mb_is_stored_and_one_byte_more_is_not() -> None:
    """A reader would refuse to unpack more, so that more is not stored, however small it packs."""
    text = "a" * LARGEST_TEXT_BYTES
    stored, blob = placed("a result", text, RUNNING)

    assert LARGEST_TEXT_BYTES == 32 * 1024 * 1024
    assert blob is not None
    assert opened(stored, blob.data) == text
    assert placed("a result", text + "a", RUNNING) == (NotKept("answer-too-large"), None)
    with pytest.raises(AnswerDamaged, match="larger than any"):
        opened(zlib.compress(text.encode() + b"a"), None)
