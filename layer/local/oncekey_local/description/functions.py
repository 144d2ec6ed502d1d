"""What a description says of a function: what it is, what calls it, and what it may touch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oncekey_local.description.resources import EnvironmentValue

if TYPE_CHECKING:
    from collections.abc import Mapping

_MINUTES_OF_A_DAY = 24 * 60
# Lambda keeps no event longer for a function that is not called by a client who waits.
_EVENT_AGE_S_MAX = 6 * 60 * 60


@dataclass(frozen=True, kw_only=True)
class Route:
    """A method and a path template as in API Gateway's HTTP API: `GET /payments/{payment_id}`.

    Not `authorized`, anybody may call it: its function finds out by itself who the caller is, as a
    webhook does by its signature.
    """

    method: str
    path: str
    authorized: bool = True
    # A JSON body that the route accepts, for whoever tries it by hand.
    example_body: str = "{}"

    @property
    def key(self) -> str:
        """API Gateway's route key."""
        return f"{self.method} {self.path}"


@dataclass(frozen=True, kw_only=True)
class StreamTrigger:
    """Calls a function with the changes of a table, in the order in which they were made.

    A batch is as many as there are after `window_s`, `batch_size` at the most. One that fails is
    tried `max_attempts` times in all; then Lambda tells the queue `on_failure` which records they
    were, and goes on without them. With `partial_batch_answers` the function says from which record
    on a batch has failed.
    """

    table: str
    batch_size: int = 10
    window_s: int = 0
    event_names: tuple[str, ...] = ("INSERT",)
    max_attempts: int = 5
    on_failure: str | None = None
    partial_batch_answers: bool = True


@dataclass(frozen=True, kw_only=True)
class QueueTrigger:
    """Calls a function with the messages of a queue.

    A batch is as many as there are after `window_s`, `batch_size` at the most, and so many batches
    run at once as `max_concurrency` allows. With `partial_batch_answers` the function says which
    messages have failed; the others are deleted.
    """

    queue: str
    batch_size: int = 10
    window_s: int = 0
    partial_batch_answers: bool = True
    max_concurrency: int | None = None


@dataclass(frozen=True, kw_only=True)
class ScheduleTrigger:
    """Calls a function every so many minutes, or each day on the hour (UTC): one of the two.

    EventBridge calls at least once, and does not wait for the run before: runs may overlap. A call
    that cannot be made is given up when the next is due, and after six hours at the latest. A run
    that fails is tried `max_attempts` times in all. Then the queue `on_failure` is told.
    """

    every_minutes: int | None = None
    daily_at_hour_utc: int | None = None
    max_attempts: int = 1
    on_failure: str | None = None

    @property
    def max_age_s(self) -> int:
        """For how long it is tried to make a call."""
        return min(60 * (self.every_minutes or _MINUTES_OF_A_DAY), _EVENT_AGE_S_MAX)


@dataclass(frozen=True, kw_only=True)
class Function:
    """A Lambda function: what it is, what calls it, and what it is told.

    `handler` is importable as `module.attribute`, from the root of the project. `reads`, `writes`,
    `updates` and `deletes` name the tables (as the description calls them) of which the function
    may get, put, update and delete items; `scans` those that it may read from end to end;
    `sends_to` the queues, or their dead letters, that it may send to.
    """

    name: str
    handler: str
    timeout_s: int
    memory_mb: int = 512
    routes: tuple[Route, ...] = ()
    streams: tuple[StreamTrigger, ...] = ()
    queues: tuple[QueueTrigger, ...] = ()
    schedule: ScheduleTrigger | None = None
    environment: Mapping[str, EnvironmentValue] = field(default_factory=dict[str, EnvironmentValue])
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()
    scans: tuple[str, ...] = ()
    sends_to: tuple[str, ...] = ()
    # The idempotency table that its decorated handlers reserve in, by its name here.
    reserves_in: str | None = None
    # The idempotency table whose due records it finds and settles, by its name here.
    reconciles: str | None = None
    # The outbox table whose messages it sends on and then deletes, by its name here.
    relays_from: str | None = None
    # The bucket for answers of theirs that no item holds, by its name here.
    keeps_answers_in: str | None = None
    # The same for a function that looks at answers, and gives none of its own.
    reads_answers_in: str | None = None
    # The bucket in whose folder `reports/` it may put objects, and read none.
    writes_reports_in: str | None = None
    # The ledgers whose differences it counts in its metrics, by their dimension `ledger`.
    compares: tuple[str, ...] = ()


def safe_visibility_timeout_s(*, timeout_s: int, window_s: int) -> int:
    """The shortest visibility timeout under which no message is handed out while it is worked on.

    AWS's rule: a batch waits for its window, and a throttled invocation is tried again for a while.
    """
    return 6 * timeout_s + window_s
