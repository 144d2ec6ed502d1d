"""The identity of a record: pinned, because tables in use hold it."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oncekey.record.identity import Identity, digest
from tests.support.replacing import replace

IDENTITY = Identity(
    tenant="tenant-1", operation="POST /payments", key="8e03978e-40d5-43e8-bc93-6894a57f9324"
)

GOLDEN = {
    "v1#5Rdkxwh-6a-o4z-AzsPZDCK6JaZDFHSwXexQA3aZy0o": IDENTITY,
    "v1#vULR4ZOPmxqSULc0VimMVM6PhjiTo4t4NKuyfup7pHU": replace(IDENTITY, principal="user-1"),
    "v1#3FDog8uI9x9HvZz4ifU2RynHbXhB7wIVjhyDOlV4QnI": replace(IDENTITY, tenant="tenant-2"),
    "v1#QEf8bMZ5rghVJlBJhJO4nYVkk31Jry2d86vO6GQ3KT4": replace(IDENTITY, operation="POST /refunds"),
    "v1#0A0RebyRolXgsO5JgBcj_5iQjiPr80asDs5vCPG63mw": Identity(
        tenant="Zürich", operation="結帳", key="🔑", principal="Ü"
    ),
}

# What could be a delimiter somewhere, digits and colons above all: the parts' lengths are spelt so.
TEXTS = st.text(st.sampled_from("ab01:#/|\x00\n\\,é🔑\ud800"), max_size=6)
PARTS = st.lists(TEXTS, max_size=5).map(tuple)


def derived(identity: Identity) -> str:
    """The partition key, computed as the contract words it."""
    parts = (identity.tenant, identity.principal, identity.operation, identity.key)
    raw = [part.encode() for part in parts]
    hashed = hashlib.sha256(b"".join(str(len(part)).encode() + b":" + part for part in raw))
    return "v1#" + base64.urlsafe_b64encode(hashed.digest()).decode().rstrip("=")


@pytest.mark.parametrize(("partition_key", "identity"), GOLDEN.items())
def test_partition_keys_never_change(partition_key: str, identity: Identity) -> None:
    """A release that moves a partition key would forget every record of the tables in use."""
    assert identity.pk == partition_key
    assert derived(identity) == partition_key


@pytest.mark.requirement("D10")
@given(PARTS, st.sampled_from([*"01:#/|\x00\n\\,", "1:", "0:", ""]))
@example(("a:b", "c"), ":")
@example(("a", "", "b"), "")
def test_no_delimiter_can_forge_a_collision(parts: tuple[str, ...], delimiter: str) -> None:
    """Parts that hold a delimiter, or another part's length, are not the parts that it delimits.

    Red when `digest` joins the parts with a delimiter in place of their lengths.
    """
    joined = delimiter.join(parts)
    others = [(joined,), (*parts, ""), ("", *parts)]
    if delimiter:
        others.append(tuple(joined.split(delimiter)))

    for other in others:
        assert (digest(*parts) == digest(*other)) == (parts == other)


@pytest.mark.requirement("D10")
@given(st.text(st.sampled_from("ab01:#"), min_size=1, max_size=8), st.data())
def test_moving_text_between_parts_is_another_identity(text: str, data: st.DataObject) -> None:
    """One text cut into tenant, principal, operation and key elsewhere is another identity.

    Red when `digest` hashes the parts one after the other without their lengths.
    """
    cuts = st.tuples(*[st.integers(0, len(text))] * 3).map(sorted)
    one, other = data.draw(cuts), data.draw(cuts)

    assert (cut(text, one).pk == cut(text, other).pk) == (one == other)


def cut(text: str, at: list[int]) -> Identity:
    """An identity whose parts are `text`, cut."""
    first, second, third = at
    return Identity(
        tenant=text[:first], principal=text[first:second], operation=text[second:third],
        key=text[third:],
    )  # fmt: skip


def test_a_length_is_counted_in_bytes() -> None:
    """The length before a part is that of its UTF-8 bytes, as every language can count it."""
    assert digest("é") == digest("é".encode()) == digest(b"\xc3\xa9")
    hashed = hashlib.sha256(b"2:\xc3\xa9").digest()
    assert digest("é") == base64.urlsafe_b64encode(hashed).decode().rstrip("=")


@pytest.mark.requirement("C12")
def test_a_principal_narrows_the_scope() -> None:
    """The same key of two principals of one tenant is two records; without them it is one.

    Red when `partition_key` leaves the principal out.
    """
    keys = {replace(IDENTITY, principal=name).pk for name in ("", "user-1", "user-2")}

    assert len(keys) == 3


@pytest.mark.requirement("B1")
def test_the_same_key_on_two_operations_is_two_records() -> None:
    """A key is bound to its operation.

    Red when `partition_key` leaves the operation out.
    """
    assert IDENTITY.pk != replace(IDENTITY, operation="POST /refunds").pk


@pytest.mark.requirement("C1")
@pytest.mark.case(35)
def test_the_same_key_of_two_tenants_is_two_records() -> None:
    """A key is bound to its tenant, so that nobody meets another tenant's record.

    Red when `partition_key` leaves the tenant out.
    """
    assert IDENTITY.pk != replace(IDENTITY, tenant="tenant-2").pk


def test_letter_case_is_kept() -> None:
    """A key is opaque: another letter case is another key."""
    assert IDENTITY.pk != replace(IDENTITY, key=IDENTITY.key.upper()).pk


@pytest.mark.parametrize("shards", [1, 2, 16, 1000])
def test_a_shard_is_within_the_number_of_shards(shards: int) -> None:
    """A record's due shard is a decimal number below the number of shards, always the same."""
    for n in range(200):
        identity = replace(IDENTITY, key=f"key-{n}")
        assert 0 <= int(identity.due_shard(shards)) < shards
        assert identity.due_shard(shards) == replace(identity).due_shard(shards)


def test_due_shards_never_change() -> None:
    """A release that moves a shard would lose sight of what is due."""
    found = [identity.due_shard(16) for identity in GOLDEN.values()]

    assert found == ["7", "1", "3", "12", "9"]


def test_records_spread_over_the_shards() -> None:
    """Keys that differ in their last digits only spread evenly over all shards."""
    counts = Counter(replace(IDENTITY, key=f"key-{n}").due_shard(16) for n in range(3_200))

    assert len(counts) == 16
    assert min(counts.values()) > 140
    assert max(counts.values()) < 260
