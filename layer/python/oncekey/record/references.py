"""References to operations. A provider stores one, and its webhook settles the operation by it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncekey.record.record import Record

_SEPARATOR = "."  # in no key of a record and in no operation id
# The table also holds companions, counters and pointers. No reference can name one of them.
_REFERENCE = re.compile(r"(v[0-9]{1,3}#[A-Za-z0-9_-]{43})\.([0-9a-f-]{36})")


def reference_to(record: Record) -> str:
    """The reference to this life of `record`: about 90 characters that contain no data of it."""
    return f"{record.pk}{_SEPARATOR}{record.operation_id}"


def read_reference(reference: str) -> tuple[str, str]:
    """The key of a record, and the operation's id.

    Raises:
        ValueError: `reference` is not a reference.
    """
    given: object = reference
    found = _REFERENCE.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise ValueError("this is no reference: give the operation's `op.reference`, as it was")
    return found[1], found[2]
