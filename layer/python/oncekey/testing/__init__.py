"""What tests need: a store in memory, a clock, events, tables on moto, and fixtures for pytest."""

from typing import TYPE_CHECKING

from oncekey import lazy

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.store.due_index import OpenRecords
    from oncekey.store.dynamodb.tables import create_tables
    from oncekey.store.pauses import Pausable
    from oncekey.store.store import Store
    from oncekey.testing.batch_events import (
        dynamodb_stream_event,
        eventbridge_event,
        kinesis_event,
        sqs_event,
    )
    from oncekey.testing.checking.assert_idempotent import assert_idempotent
    from oncekey.testing.crash_points import CrashingStore, Killed
    from oncekey.testing.http_events import api_event
    from oncekey.testing.memory import (
        ManualClock,
        MemoryStore,
    )
    from oncekey.testing.moto_tables import Tables, dynamodb_tables
    from oncekey.testing.plugin import UseStore
    from oncekey.testing.replacement import use_store
    from oncekey.testing.store_contract import StoreContract
    from oncekey.testing.time_passing import TimePassed, let_time_pass

__all__ = [
    "Clock",
    "CrashingStore",
    "Killed",
    "ManualClock",
    "MemoryStore",
    "OpenRecords",
    "Pausable",
    "Store",
    "StoreContract",
    "Tables",
    "TimePassed",
    "UseStore",
    "api_event",
    "assert_idempotent",
    "create_tables",
    "dynamodb_stream_event",
    "dynamodb_tables",
    "eventbridge_event",
    "kinesis_event",
    "let_time_pass",
    "sqs_event",
    "use_store",
]

__getattr__, __dir__ = lazy.names(
    __name__,
    {
        "oncekey.clock": ("Clock",),
        "oncekey.store.due_index": ("OpenRecords",),
        "oncekey.store.dynamodb.tables": ("create_tables",),
        "oncekey.store.pauses": ("Pausable",),
        "oncekey.store.store": ("Store",),
        "oncekey.testing.batch_events": (
            "dynamodb_stream_event",
            "eventbridge_event",
            "kinesis_event",
            "sqs_event",
        ),
        "oncekey.testing.checking.assert_idempotent": ("assert_idempotent",),
        "oncekey.testing.crash_points": ("CrashingStore", "Killed"),
        "oncekey.testing.http_events": ("api_event",),
        "oncekey.testing.memory": (
            "ManualClock",
            "MemoryStore",
        ),
        "oncekey.testing.moto_tables": ("Tables", "dynamodb_tables"),
        "oncekey.testing.plugin": ("UseStore",),
        "oncekey.testing.replacement": ("use_store",),
        "oncekey.testing.store_contract": ("StoreContract",),
        "oncekey.testing.time_passing": ("TimePassed", "let_time_pass"),
    },
)
