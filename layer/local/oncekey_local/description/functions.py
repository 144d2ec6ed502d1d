"""A function in a description: its code, its triggers and its permissions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oncekey_local.description.resources import BucketName, EnvironmentValue, QueueUrl, TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# What a route may have as its method.
METHODS = ("ANY", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
# A segment of a path template: plain text, or one parameter.
_SEGMENT = re.compile(r"[^{}]*|\{(?P<name>[^{}+]+)(?P<greedy>\+?)\}")
# Lambda's rule for the name of a variable.
# https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
_VARIABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]+")
_MINUTES_OF_A_DAY = 24 * 60
# Lambda keeps the event of an asynchronous invocation no longer than this.
_EVENT_AGE_S_MAX = 6 * 60 * 60


@dataclass(frozen=True, kw_only=True)
class Route:
    """A method and a path template as in API Gateway's HTTP API: `GET /payments/{payment_id}`.

    `answers` are the handler's own, for the OpenAPI document: by status, the importable pydantic
    model of the body, such as `app.models.Payment`, or None for a body without one.

    Anybody may call a route that is not `authorized`. Its function must identify the caller itself,
    as a webhook does by its signature.
    """

    method: str
    path: str
    authorized: bool = True
    # A JSON body that the route accepts, for trying it by hand.
    example_body: str = "{}"
    answers: Mapping[int, str | None] = field(default_factory=dict[int, str | None], hash=False)

    @property
    def key(self) -> str:
        """API Gateway's route key."""
        return f"{self.method} {self.path}"


@dataclass(frozen=True, kw_only=True)
class StreamTrigger:
    """Calls a function with the changes of a table, in the order in which they were made.

    A batch has the changes that exist after `window_s`, at most `batch_size`. A failed batch is
    tried `max_attempts` times in all. Then Lambda sends the records' positions to the queue
    `on_failure`, and skips them. With `partial_batch_answers`, the function returns the record from
    which on the batch has failed.
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

    A batch has the messages that exist after `window_s`, at most `batch_size`. At most
    `max_concurrency` batches run at once. With `partial_batch_answers`, the function returns the
    messages that have failed; the others are deleted.
    """

    queue: str
    batch_size: int = 10
    window_s: int = 0
    partial_batch_answers: bool = True
    max_concurrency: int | None = None


@dataclass(frozen=True, kw_only=True)
class ScheduleTrigger:
    """Calls a function either every `every_minutes`, or each day at `daily_at_hour_utc`.

    EventBridge calls at least once, and does not wait for the previous run: runs may overlap. A
    call that cannot be made is dropped when the next is due, or after six hours. A failed run is
    tried `max_attempts` times in all. Then the queue `on_failure` gets a message.
    """

    every_minutes: int | None = None
    daily_at_hour_utc: int | None = None
    max_attempts: int = 1
    on_failure: str | None = None

    @property
    def max_age_s(self) -> int:
        """For how long a call is tried."""
        return min(60 * (self.every_minutes or _MINUTES_OF_A_DAY), _EVENT_AGE_S_MAX)


@dataclass(frozen=True, kw_only=True)
class Allow:
    """Actions on one table, bucket or queue that no other field of `Function` gives.

        Allow(actions=("dynamodb:BatchGetItem",), on=TableName("orders"))

    Of a bucket, `objects` are those whose keys begin with this text; None is the bucket itself.
    """

    actions: tuple[str, ...]
    on: TableName | BucketName | QueueUrl
    objects: str | None = None


@dataclass(frozen=True, kw_only=True)
class Function:
    """A Lambda function: its code, its triggers, its settings and its permissions.

    `handler` is importable as `module.attribute`, from the root of the project. Tables, buckets and
    queues go by their names in the description. The function may get, put, update, delete, check,
    query and scan the items of the tables in `reads`, `writes`, `updates`, `deletes`, `checks`,
    `queries` and `scans`. It may send to the queues in `sends_to`, or to their dead-letter queues.
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
    # Conditions of a transaction on items that it does not write.
    checks: tuple[str, ...] = ()
    # Of the tables and of their indexes.
    queries: tuple[str, ...] = ()
    scans: tuple[str, ...] = ()
    sends_to: tuple[str, ...] = ()
    # The idempotency table that its decorated handlers reserve in, by its name here.
    reserves_in: str | None = None
    # The idempotency table whose due records it finds and settles, by its name here.
    reconciles: str | None = None
    # The outbox table whose messages it sends on and then deletes, by its name here.
    relays_from: str | None = None
    # The bucket for its handlers' answers that are too large for an item, by its name here.
    keeps_answers_in: str | None = None
    # The same for a function that only reads answers.
    reads_answers_in: str | None = None
    allows: tuple[Allow, ...] = ()
    # The ledgers that it compares: the values of the dimension `ledger` in its metrics.
    compares: tuple[str, ...] = ()
    # It checks the service as a client would, and raises if something is wrong.
    is_canary: bool = False


def safe_visibility_timeout_s(*, timeout_s: int, window_s: int) -> int:
    """The shortest visibility timeout with which no message is delivered while it is worked on.

    AWS's rule: a batch waits for its window, and a throttled invocation is tried again for a while.
    """
    return 6 * timeout_s + window_s


def template_faults(path: str) -> Iterator[str]:
    """What is wrong with the parameters of a path template.

    API Gateway would say so in the middle of a deployment.
    """
    segments = [_SEGMENT.fullmatch(segment) for segment in path.split("/")]
    if None in segments:
        yield "a parameter is a whole segment of the path, such as /orders/{order_id}"
        return
    found = [segment for segment in segments if segment is not None]
    if any(segment["greedy"] for segment in found[:-1]):
        yield "a parameter that takes all the rest, such as {proxy+}, is the last segment"
    names = [segment["name"] for segment in found if segment["name"]]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"the parameter {name!r} is there twice"


def variable_faults(names: Iterable[str]) -> Iterator[str]:
    """Which variables Lambda would refuse for their names, in the middle of a deployment."""
    for name in names:
        if not _VARIABLE.fullmatch(name):
            yield (
                f"a variable {name!r}: a letter first, then letters, digits and underscores, two"
                " characters or more"
            )
