"""References: what a provider keeps, and a webhook settles by."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncekey.record.identity import Identity
from oncekey.record.references import read_reference, reference_to
from tests.support.records import record

PK = Identity(tenant="acme", operation="POST /payments", key="k" * 255).pk


def test_a_reference_leads_back_to_its_record() -> None:
    """A reference names the record's key and the operation's id, and nothing gets lost on the way
    there and back.
    """
    met = record(pk=PK)

    assert read_reference(reference_to(met)) == (PK, met.operation_id)


def test_a_reference_fits_what_providers_keep() -> None:
    """A reference has at most 100 characters, of those that any provider's metadata takes, and
    tells neither the client's key nor its tenant.
    """
    reference = reference_to(record(pk=PK))

    assert len(reference) <= 100
    assert reference.isascii()
    assert reference.isprintable()
    assert not {" ", '"', "\\"} & set(reference)
    assert not any(secret in reference for secret in ("acme", "kkkk", "payments"))


def test_two_lives_of_a_key_have_two_references() -> None:
    """An earlier life of the key has another reference than a later one."""
    first, second = record(pk=PK), record(pk=PK, operation_id="another")

    assert reference_to(first) != reference_to(second)


@pytest.mark.parametrize("garbage", ["", ".", "no separator", "v1#x.", ".an-id", "pi_123", None, 7])
def test_what_is_no_reference_is_refused_and_told_what_to_give(garbage: Any) -> None:
    """Text without both parts is no reference; the error says what to give, and not what was."""
    with pytest.raises(ValueError, match=r"give the operation's `op.reference`") as caught:
        read_reference(garbage)

    assert garbage in {"", "."} or str(garbage) not in str(caught.value)


@pytest.mark.requirement("C11")
@pytest.mark.parametrize(
    "other",
    [
        f"{PK}#owner-1",
        "op#0f8fad5b-d9cb-469f-a165-70867728950e",
        "quota#x",
        "due#shards",
        f"{PK}\n",
    ],
)
def test_no_other_item_of_the_table_can_be_named(other: str) -> None:
    """Nothing but a record can be named by a reference, whatever somebody has put into one.

    Red when a companion, a counter or a pointer is read as a record.
    """
    with pytest.raises(ValueError, match="this is no reference"):
        read_reference(f"{other}.0f8fad5b-d9cb-469f-a165-70867728950e")


@given(st.text())
def test_any_text_is_a_reference_or_refused(text: str) -> None:
    """Whatever a webhook carries is read as two parts that are not empty, or a ValueError."""
    try:
        parts = read_reference(text)
    except ValueError:
        return

    assert all(parts)
    assert ".".join(parts) == text
