"""References: what a provider is given to keep, so that its webhook can settle an operation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncekey.record.record import Record

_SEPARATOR = "."  # in no key of a record and in no operation id
# The table holds other items, too: companions, counters, pointers. None of them can be named.
_REFERENCE = re.compile(r"(v[0-9]{1,3}#[A-Za-z0-9_-]{43})\.([0-9a-f-]{36})")


def reference_to(record: Record) -> str:
    """The reference to this life of `record`, about 90 characters; it tells nothing by itself."""
    return f"{record.pk}{_SEPARATOR}{record.operation_id}"


def read_reference(reference: str) -> tuple[str, str]:
    """The key of a record, and the operation's id.

    Raises:
        ValueError: it is no reference.
    """
    given: object = reference
    found = _REFERENCE.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise ValueError("this is no reference: give the operation's `op.reference`, as it was")
    return found[1], found[2]
