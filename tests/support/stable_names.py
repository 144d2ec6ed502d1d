"""Names of test cases that are the same in every process."""

from __future__ import annotations

import re


def stable_repr(value: object) -> str:
    """`repr(value)` without addresses: tests that run in parallel are told apart by their names."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
