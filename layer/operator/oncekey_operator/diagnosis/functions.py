"""What is known of one deployed function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class FunctionFacts:
    """A deployed function. One that `is_stopped` has a reserved concurrency of 0.

    One that `is_named` was named by the person who asks. The others are all that the stacks have.
    """

    name: str
    timeout_s: int
    variables: Mapping[str, str]
    is_stopped: bool = False
    is_named: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether it uses the layer. What its variables do not say, its code may."""
        return self.is_named or any(name.startswith("ONCEKEY_") for name in self.variables)

    @property
    def has_records(self) -> bool:
        """Whether it uses a table of records."""
        return self.is_named or "ONCEKEY_TABLE" in self.variables
