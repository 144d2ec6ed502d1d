"""Records as items: what is written, and what is left out to keep them small."""

from __future__ import annotations

from oncekey.record.record import Due
from oncekey.record.transitions import Reschedule, seen
from oncekey.store.dynamodb.changes import look_again
from oncekey.store.dynamodb.codec import attribute_values, record_from_item
from tests.support.records import NOW_MS, record
from tests.support.replacing import replace

EMPTY = record(key="", principal="", last_error="", reconcile_attempts=0, escalated_at_ms=None)


def test_what_is_empty_or_zero_is_left_out() -> None:
    """An item has no attribute that says nothing: each costs room within its write unit, and an
    empty key would look like one that was given.

    Red when zeros or empty texts are written.
    """
    item = attribute_values(EMPTY)

    left_out = {"key", "principal", "last_error", "reconcile_attempts", "escalated_at"}
    assert set(attribute_values(record())) - set(item) == left_out
    texts = [text for value in item.values() for kind, text in value.items() if kind != "M"]
    assert not {"", "0"} & set(texts)
    assert item["policy"] == {"M": {"answer": {"S": "http"}, "retention_s": {"N": "86400"}}}


def test_what_was_left_out_reads_as_empty() -> None:
    """A record whose empty fields were left out comes back with their defaults."""
    assert record_from_item(attribute_values(EMPTY)) == replace(EMPTY, last_error=None)


def test_a_visit_writes_what_a_record_would_say_of_it() -> None:
    """The update of a visit sets the attributes that the whole record has, in the same form."""
    visited = replace(
        record(), due=Due(shard="3", at_ms=NOW_MS), reconcile_attempts=4, escalated_at_ms=NOW_MS
    )
    visit = Reschedule(
        pk=visited.pk,
        seen=seen(record()),
        due=Due(shard="3", at_ms=NOW_MS),
        attempts=4,
        escalated_at_ms=NOW_MS,
    )

    sets, removes = look_again(visit)

    names = {"reconcile_attempts", "escalated_at", "due_shard", "due_at"}
    assert sets == {name: attribute_values(visited)[name] for name in names}
    assert removes == ()
