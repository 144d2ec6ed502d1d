"""Where an answer is kept, by its size, and what is made of it again."""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncekey.record.record import Status
from oncekey.record.stored_answer import (
    LARGEST_COMPANION_BYTES,
    AnswerDamaged,
    Blob,
    NotKept,
    Place,
    StoredAnswer,
    StoredRef,
    opened,
    place_answer,
)
from tests.support.large_answers import MULTI_BYTE, PRINTABLE, text_of
from tests.support.records import NOW_S, record
from tests.support.replacing import replace

RECORD = record(
    pk="v1#" + "p" * 43, operation_id="0" * 36, fingerprint="f1:" + "f" * 43, owner="o" * 22
)


def kept(text: str, *, has_bucket: bool = True) -> tuple[StoredAnswer, Blob | None]:
    """What becomes of the answer `text`."""
    return place_answer(text, RECORD, expires_at_s=NOW_S, has_bucket=has_bucket)


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=2_000)
    | st.sampled_from([PRINTABLE, MULTI_BYTE]).flatmap(
        lambda alphabet: st.integers(0, 3_000).map(lambda length: text_of(alphabet, length))
    )
)
def test_what_is_kept_is_what_is_given_again(text: str) -> None:
    """Whatever the text and wherever it is kept, opening it gives the same text.

    Red when an encoding or a compression loses anything.
    """
    stored, blob = kept(text)

    assert opened(stored, blob.data if blob else None) == text


def test_an_answer_stands_in_its_record_up_to_the_last_byte_of_room() -> None:
    """One byte less of room, and the same text goes elsewhere: there is one limit and no gap.

    Red when the limit counts letters in place of bytes, or is off by one.
    """
    lengths = range(1, 1_024)
    fitting = [n for n in lengths if kept(text_of(PRINTABLE, n)) == (text_of(PRINTABLE, n), None)]
    letters = max(fitting)
    assert fitting == list(range(1, letters + 1))
    text = text_of(PRINTABLE, letters)
    assert kept(text) == (text, None)
    one_byte_more = replace(RECORD, tenant=RECORD.tenant + "x")

    stored, blob = place_answer(text, one_byte_more, expires_at_s=NOW_S, has_bucket=False)

    assert stored != text
    assert blob is None or blob.data == zlib.compress(text.encode())


@pytest.mark.parametrize("field", ["pk", "tenant", "principal", "operation", "key", "fingerprint"])
def test_the_room_for_an_answer_is_what_the_record_leaves(field: str) -> None:
    """A longer key, tenant or other text leaves less room, byte for byte.

    Red when one of the texts is not counted, or its letters are in place of its bytes.
    """
    text = text_of(PRINTABLE, 300)
    assert kept(text)[1] is None
    changes: dict[str, Any] = {field: "é" * 200}
    crowded = replace(RECORD, **changes)

    assert place_answer(text, crowded, expires_at_s=NOW_S, has_bucket=True)[1] is not None


def test_a_compressed_answer_is_kept_in_the_record_only_if_that_helps() -> None:
    """Text that fits stays readable; text that fits only when compressed is bytes.

    Red when everything is compressed, or nothing is.
    """
    assert kept("a" * 100) == ("a" * 100, None)
    stored, blob = kept("a" * 10_000)

    assert isinstance(stored, bytes)
    assert blob is None


def test_an_answer_beyond_the_limit_of_an_item_needs_a_bucket() -> None:
    """Up to the limit an item; beyond it an object, or nothing if there is no bucket.

    Red when more is sent to an item than it holds, or a bucket is used that is not there.
    """
    large, too_large = text_of(PRINTABLE, 400_000), text_of(PRINTABLE, 600_000)

    for has_bucket in (True, False):
        stored, blob = kept(large, has_bucket=has_bucket)
        assert isinstance(stored, StoredRef)
        assert stored.place is Place.ITEM
        assert blob is not None
        assert len(blob.data) <= LARGEST_COMPANION_BYTES
    stored, blob = kept(too_large)
    assert isinstance(stored, StoredRef)
    assert stored.place is Place.OBJECT
    assert kept(too_large, has_bucket=False) == (NotKept("answer-too-large"), None)


def test_what_is_kept_elsewhere_is_named_after_its_record_and_attempt() -> None:
    """The name is the record's key and the attempt's owner, so attempts never share one; the digest
    is that of the very bytes.

    Red when two attempts could overwrite each other's answers.
    """
    text = text_of(PRINTABLE, 2_000)
    stored, blob = kept(text)
    other, _ = place_answer(
        text, replace(RECORD, owner="another"), expires_at_s=NOW_S, has_bucket=True
    )

    assert blob is not None
    assert isinstance(stored, StoredRef)
    assert isinstance(other, StoredRef)
    assert stored.name == f"{RECORD.pk}#{RECORD.owner}" != other.name
    assert stored.digest == hashlib.sha256(blob.data).hexdigest()
    assert blob == Blob(at=stored, data=blob.data, expires_at_s=NOW_S)


@given(at=st.integers(min_value=0), bit=st.integers(0, 7))
def test_no_damage_goes_unnoticed(at: int, bit: int) -> None:
    """One bit that is turned anywhere is found out.

    Red when the digest is not compared.
    """
    stored, blob = kept(text_of(PRINTABLE, 2_000))
    assert blob is not None
    data = bytearray(blob.data)
    data[at % len(data)] ^= 1 << bit

    with pytest.raises(AnswerDamaged, match="damaged"):
        opened(stored, bytes(data))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        zlib.compress(text_of(PRINTABLE, 2_000).encode())[:-1],
        zlib.compress(text_of(PRINTABLE, 2_000).encode()) + b"x",
        zlib.compress(b"the answer to somebody else"),
    ],
)
def test_other_bytes_are_no_answer(data: bytes) -> None:
    """Cut, lengthened, emptied, or the sound answer to another request: damaged.

    Red when what can be unpacked counts as the answer that was kept.
    """
    with pytest.raises(AnswerDamaged, match="damaged"):
        opened(kept(text_of(PRINTABLE, 2_000))[0], data)


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        (StoredRef(place=Place.ITEM, name="n", digest="d"), "missing"),
        (StoredRef(place=Place.OBJECT, name="n", digest="d"), "missing"),
        (NotKept("answer-too-large"), "answer-too-large"),
        (None, "no answer"),
        (b"no zlib", "damaged"),
        (zlib.compress(b"\xff\xfe"), "damaged"),
        (zlib.compress(b"an answer")[:-1], "damaged"),
        (zlib.compress(b"an answer") + b"x", "damaged"),
    ],
)
def test_what_cannot_be_opened_says_why(stored: StoredAnswer | None, says: str) -> None:
    """A missing, unkept, unreadable or absent answer is an error that names the reason.

    Red when any of them is given as an empty answer.
    """
    with pytest.raises(AnswerDamaged, match=says):
        opened(stored, None)


def test_an_answer_shows_nothing_in_the_records_representation() -> None:
    """A record that is logged by accident does not show its answer."""
    shown = repr(replace(RECORD, status=Status.COMPLETED, response="secret answer"))

    assert "secret answer" not in shown
