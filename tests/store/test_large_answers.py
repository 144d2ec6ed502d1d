"""Answers of any size: where they are kept, and what a repeat of them costs."""

from __future__ import annotations

from bisect import bisect_left
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from oncekey import Completed, NotExecuted, Settlement, settle
from oncekey.record.record import Status
from oncekey.record.stored_answer import Blob, Place, StoredRef, place_answer
from tests.support.dynamodb import (
    Recorder,
    dynamodb_table,
    item_size_bytes,
    items,
    make_response_bucket,
    store_on,
    write_units,
)
from tests.support.events import with_key
from tests.support.large_answers import (
    KB,
    KINDS,
    LARGE,
    MULTI_BYTE,
    POST,
    PRINTABLE,
    SIZES,
    TOO_LARGE_FOR_AN_ITEM,
    World,
    body_of,
    place_of,
    text_of,
    without_headers,
    world_on,
)
from tests.support.protected import Answer, Protected, headers_of
from tests.support.records import NOW_S, record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey import Operation


# The longest names that there are: a hash for the record, and an owner as the system draws it.
RECORD = record(pk="v1#" + "p" * 43, owner="o" * 22)


@pytest.fixture
def world() -> Iterator[World]:
    """An empty table and an empty bucket."""
    with dynamodb_table() as table:
        yield world_on(table, make_response_bucket())


@pytest.mark.case(25)
@pytest.mark.case(26)
@pytest.mark.parametrize("kind", KINDS)
def test_a_large_answer_is_replayed_field_by_field_for_one_write_unit(
    world: World, kind: str
) -> None:
    """An answer of any size is replayed as it was given, and the record that every repeat meets
    stays within the 1 KB that one write unit covers.

    Red when a large answer is put into its record, is cut or loses a field, its key is released, or
    it is read where it may not have arrived yet.
    """
    for runs, size in enumerate(SIZES, start=1):
        event = with_key(POST, f"answer-of-{size:08}")
        answer = world.answers(body_of(kind, size), is_base64=kind == "base64")

        first = world.service.send(event)
        sent = Recorder(world.table, world.bucket)
        replay = world.service.send(event)
        requests = list(sent.operations)

        assert without_headers(first) == without_headers(answer)
        assert without_headers(replay) == without_headers(first)
        assert headers_of(replay) == headers_of(first) | {"idempotent-replayed": "true"}
        assert len(world.service.runs) == runs
        record = world.record()
        assert record["status"]["S"] == Status.COMPLETED
        assert write_units(record) == 1
        cheap_read = {"item": ["GetItem"], "object": ["GetObject"]}.get(place_of(record), [])
        assert requests == ["PutItem", *cheap_read]
        reads = [call for name, call in sent.calls if name == "GetItem"]
        assert all(call["ConsistentRead"] for call in reads)
        world.forget()


@pytest.mark.parametrize(
    ("kind", "size", "place"),
    [
        ("random", 100, "text"),
        ("repetitive", KB, "compressed"),
        ("repetitive", 20 * KB, "compressed"),
        ("random", KB, "item"),
        ("random", 390 * KB, "item"),
        ("multi-byte", 390 * KB, "item"),
        ("repetitive", 5 * KB * KB, "item"),
        ("random", 600 * KB, "object"),
        ("base64", 5 * KB * KB, "object"),
    ],
)
def test_an_answer_is_kept_as_near_to_its_record_as_it_fits(
    world: World, kind: str, size: int, place: str
) -> None:
    """Small answers stand in the record, compressed if that helps; then an item; then an object.

    Red when one of the limits is moved, or compression is left out.
    """
    world.answers(body_of(kind, size), is_base64=kind == "base64")

    world.service.send(POST)

    assert place_of(world.record()) == place


@pytest.mark.parametrize("key_length", [16, 255])
@pytest.mark.parametrize("alphabet", [PRINTABLE, MULTI_BYTE], ids=["ascii", "multi-byte"])
def test_no_answer_takes_its_record_beyond_one_write_unit(
    world: World, key_length: int, alphabet: list[str]
) -> None:
    """Whatever is in the record itself, at the very edge too, and of a second attempt with all that
    it has been through, the record stays within 1 KB.

    Red when the room that is kept for the attributes of a completed record is too small.
    """
    bytes_a_letter = len(alphabet[0].encode())
    for length in range(120, 560, 16):
        event = with_key(POST, f"{length:0{key_length}}")
        if length % 32:
            world.service.then = _fails
            world.service.send(event)
        world.answers(text_of(alphabet, length // bytes_a_letter))
        world.service.send(event)
    sizes = [
        (place_of(item), item_size_bytes(item)) for item in items(world.table) if "status" in item
    ]

    assert max(size for _, size in sizes) <= KB
    assert {"text", "item"} <= {place for place, _ in sizes}


def _fails(_event: object, _op: object) -> Answer:
    raise NotExecuted("the provider is away")


def test_the_largest_answer_that_is_kept_in_an_item_fits_into_one() -> None:
    """The last letter before an answer goes to the bucket, or is given up: DynamoDB takes the item.

    Red when the limit is beyond the 400 KB of an item, names and key included.
    """
    text = text_of(PRINTABLE, 700 * KB)

    def kept_in_item(length: int) -> Blob | None:
        stored, blob = place_answer(text[:length], RECORD, expires_at_s=NOW_S, has_bucket=True)
        return blob if isinstance(stored, StoredRef) and stored.place is Place.ITEM else None

    largest = bisect_left(range(len(text)), x=True, lo=4 * KB, key=lambda n: not kept_in_item(n))
    blob = kept_in_item(largest - 1)
    assert blob is not None
    assert kept_in_item(largest) is None
    with dynamodb_table() as table:
        store_on(table).save(blob)
        (item,) = items(table)

    assert 390 * KB < item_size_bytes(item) <= 400 * KB


def test_what_is_kept_beside_a_record_expires_after_it(world: World) -> None:
    """A record in force never points at an item that DynamoDB has deleted.

    Red when the companion expires with its record, or never.
    """
    world.answers(LARGE)

    world.service.send(POST)

    record, companion = world.record(), world.companion()
    assert companion["pk"]["S"] == f"{record['pk']['S']}#{record['owner']['S']}"
    assert int(companion["expires_at"]["N"]) > int(record["expires_at"]["N"])


@pytest.mark.parametrize(
    "body", [body_of("random", 100), LARGE, TOO_LARGE_FOR_AN_ITEM], ids=["text", "item", "object"]
)
def test_a_late_owner_gives_the_large_answer_that_was_recorded(body: str) -> None:
    """An attempt that was taken over answers what its successor recorded, of whatever size.

    Red when the late owner gives its own answer, or overwrites the one that is kept.
    """
    with dynamodb_table() as table:
        store = store_on(table, make_response_bucket())
        store._call_timeout_ms = 0
        service = Protected(
            store=store, effects="repeatable", max_lease=timedelta(seconds=1), timeout_ms=60_000
        )
        inner: list[Answer] = []

        def slow(_event: object, _op: object) -> Answer:
            service.then = lambda _event, _op: {"statusCode": 201, "body": body}
            service.clock.advance(5_000)
            inner.append(service.send(POST))
            return {"statusCode": 201, "body": "mine, late " + body}

        service.then = slow
        late = service.send(POST)
        replay = service.send(POST)

    assert len(service.runs) == 2
    assert late["body"] == replay["body"] == inner[0]["body"] == body
    assert headers_of(late)["idempotent-replayed"] == "true"


@pytest.mark.parametrize("late_body", [LARGE, TOO_LARGE_FOR_AN_ITEM], ids=["item", "object"])
@pytest.mark.parametrize("body", [LARGE, TOO_LARGE_FOR_AN_ITEM], ids=["an item", "an object"])
def test_a_late_owner_never_overwrites_a_large_answer_that_was_settled(
    body: str, late_body: str
) -> None:
    """What a resolver knows is the answer of every retry, and of the attempt that comes to its end
    afterwards, though both keep a large answer beside the same record.

    Red when a settled answer is kept under the name of the owner that it was settled against.
    """
    with dynamodb_table() as table:
        store = store_on(table, make_response_bucket())
        store._call_timeout_ms = 0
        service = Protected(store=store, timeout_ms=60_000)
        settled: Answer = {"statusCode": 201, "body": body}

        def slow(_event: object, op: Operation) -> Answer:
            service.clock.advance(10 * 60_000)
            told = settle(op.reference, Completed(settled), store=store, clock=service.clock)
            assert told is Settlement.SETTLED
            return {"statusCode": 201, "body": late_body[::-1]}

        service.then = slow
        late = service.send(POST)
        replay = service.send(POST)

    assert (late["body"], replay["body"]) == (body, body)
    assert headers_of(replay)["idempotent-replayed"] == "true"
