"""A function under `@idempotent_function`, with counted runs and a scripted end."""

from __future__ import annotations

from typing import Any

from oncekey import (
    current_operation,
    idempotent_function,
    single_tenant,
)
from oncekey.testing.memory import ManualClock, MemoryStore


class Calls:
    """A function under `@idempotent_function`, whose runs are counted and whose end is scripted."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.store = options.pop("store", None) or MemoryStore()
        self.runs: list[Any] = []
        self.result: Any = None
        self.then: Any = None
        options = {"operation": "charge", "key": "id", "tenant": single_tenant(), **options}

        @idempotent_function(store=self.store, clock=self.clock, **options)
        def function(record: Any) -> Any:
            self.runs.append(current_operation())
            return self.then(record) if self.then is not None else self.result

        self.call = function

    def only(self) -> Any:
        """The one record."""
        (record,) = self.store.records.values()
        return record
