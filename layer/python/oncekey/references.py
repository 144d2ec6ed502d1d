"""References: what a provider is given to keep, so that its webhook can settle an operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncekey.record import Record

_SEPARATOR = "."  # in no key of a record and in no operation id


def reference_to(record: Record) -> str:
    """The reference to this life of `record`, about 90 characters; it tells nothing by itself."""
    return f"{record.pk}{_SEPARATOR}{record.operation_id}"


def read_reference(reference: str) -> tuple[str, str]:
    """The key of a record, and the operation's id.

    Raises:
        ValueError: it is no reference.
    """
    pk, _, operation_id = reference.rpartition(_SEPARATOR)
    if not pk or not operation_id:
        raise ValueError("this is no reference: give the operation's `op.reference`, as it was")
    return pk, operation_id
