"""How the times of functions, queues, APIs and records must fit together; pure, in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.settings import DEFAULT_LEASE_MS, LEASE_MARGIN_MS, RETENTION_S, WAIT_UP_TO_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# An HTTP API waits for 30 s, a REST API for 29 s by default. The function runs on after that. The
# client never sees the first answer, and its retry meets a live attempt.
# https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-quotas.html
API_TIMEOUT_S = 29
# CloudFormation's defaults.
FUNCTION_TIMEOUT_S = 3
VISIBILITY_TIMEOUT_S = 30
_DAY_S = 24 * 3600
MESSAGES_KEPT_S = 4 * _DAY_S
# SQS's maximum. An escalation of last week is still there when the next one comes.
_PEOPLES_QUEUE_S = 14 * _DAY_S
# Lambda's limits of event sources. SQS hands out ten messages at once.
BATCH_SIZE_MAX = 10_000
RECEIVED_AT_ONCE_MAX = 10
WINDOW_MAX_S = 300
CONCURRENCY = (2, 1000)
# The prefixes of the layer's keys in its bucket. Results are the evidence of a charge, so no rule
# may remove them.
ANSWERS, MESSAGES, RESULTS = "answers/", "outbox/", "results/"
# S3 counts whole days, from midnight.
BUCKET_SLACK_DAYS = 2


def safe_visibility_timeout_s(*, timeout_s: int, window_s: int) -> int:
    """The shortest visibility timeout with which no message is delivered while it is worked on.

    AWS's rule: a batch waits for its window, and a throttled invocation is tried again for a while.
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
    """
    return 6 * timeout_s + window_s


def visibility_faults(*, visible_s: int, timeout_s: int, window_s: int) -> Iterator[str]:
    """The fault of a queue that delivers messages again while they are worked on."""
    least_s = safe_visibility_timeout_s(timeout_s=timeout_s, window_s=window_s)
    if visible_s < least_s:
        yield (
            f"a visibility timeout of {visible_s} s delivers messages again while they are worked"
            f" on: use at least {least_s} s, six times the function's timeout ({timeout_s} s) plus"
            f" the window ({window_s} s)"
        )


def source_faults(
    *,
    batch_size: int | None,
    window_s: float | None,
    max_concurrency: int | None,
    is_queue: bool,
    is_fifo: bool,
) -> Iterator[str]:
    """Why Lambda would refuse an event source in the middle of a deployment. None is not known.

    https://docs.aws.amazon.com/lambda/latest/api/API_CreateEventSourceMapping.html
    """
    if batch_size is not None and not 1 <= batch_size <= BATCH_SIZE_MAX:
        yield f"batch_size is {batch_size}: use 1 to {BATCH_SIZE_MAX}"
    if window_s is not None and not (0 <= window_s <= WINDOW_MAX_S and window_s == int(window_s)):
        yield f"the window is {window_s:g} s: use whole seconds, 0 to {WINDOW_MAX_S}"
    least, most = CONCURRENCY
    if max_concurrency is not None and not least <= max_concurrency <= most:
        yield f"max_concurrency is {max_concurrency}: use {least} to {most}, or None"
    if not is_queue or batch_size is None or window_s is None:
        return
    if is_fifo and window_s:
        yield f"a FIFO queue has no window: leave out the window of {window_s:g} s"
    if is_fifo and batch_size > RECEIVED_AT_ONCE_MAX:
        yield f"batch_size is {batch_size}: a FIFO queue allows at most {RECEIVED_AT_ONCE_MAX}"
    if not is_fifo and batch_size > RECEIVED_AT_ONCE_MAX and not window_s:
        yield (
            f"batch_size is {batch_size}: more than {RECEIVED_AT_ONCE_MAX} messages need a window"
            " of at least one second to be collected in"
        )


def api_faults(*, timeout_s: int, most_s: int = API_TIMEOUT_S) -> Iterator[str]:
    """The fault of a function that may run for longer than the API in front of it waits."""
    if timeout_s > most_s:
        yield (
            f"a function's timeout of {timeout_s} s is longer than the API waits: use at most"
            f' {most_s} s, or accept the request and run it in a worker (mode="queued")'
        )


def lease_faults(*, timeout_s: int, environment: Mapping[str, str]) -> Iterator[str]:
    """The faults of a lease or a retention that ends while its function may still run.

    Args:
        timeout_s: The function's timeout.
        environment: Its variables, as far as they are known when the templates are made.
    """
    faults: list[str] = []
    number = _numbers(environment, faults.append)
    default_ms = number("ONCEKEY_DEFAULT_LEASE_MS", DEFAULT_LEASE_MS)
    margin_ms = number("ONCEKEY_LEASE_MARGIN_MS", LEASE_MARGIN_MS)
    retention_s = number("ONCEKEY_RETENTION_S", RETENTION_S)
    wait_ms = number("ONCEKEY_WAIT_UP_TO_MS", WAIT_UP_TO_MS)
    yield from faults
    if default_ms < timeout_s * 1000:
        yield (
            f"ONCEKEY_DEFAULT_LEASE_MS, the lease of a call without Lambda's context, is"
            f" {default_ms} ms. It ends before the function's timeout of {timeout_s} s, so a second"
            f" attempt could run beside the first: use at least {timeout_s * 1000}"
        )
    lease_s = timeout_s + margin_ms / 1000
    if retention_s <= lease_s:
        yield (
            f"ONCEKEY_RETENTION_S is {retention_s}. It is not longer than a lease ({lease_s:g} s,"
            " the function's timeout plus the margin), so a record could end before its retry"
            " comes: use the time in which clients retry, such as a day"
        )
    if environment.get("ONCEKEY_IN_PROGRESS") == "wait" and wait_ms >= timeout_s * 1000:
        yield (
            f"ONCEKEY_WAIT_UP_TO_MS is {wait_ms}. It is not shorter than the function's timeout of"
            f" {timeout_s} s, so a waiting client is cut off and gets no 409: use a shorter wait"
        )


def bucket_faults(*, environment: Mapping[str, str], answers_days: int | None) -> Iterator[str]:
    """The fault of a bucket that removes answers which records still refer to."""
    faults: list[str] = []
    retention_s = _numbers(environment, faults.append)("ONCEKEY_RETENTION_S", RETENTION_S)
    least = -(-retention_s // _DAY_S) + BUCKET_SLACK_DAYS
    if answers_days is not None and answers_days < least:
        yield (
            f"the bucket removes answers after {answers_days} days, but records refer to them for"
            f" {retention_s} s (ONCEKEY_RETENTION_S): use at least {least} days"
        )


def _numbers(
    environment: Mapping[str, str], complain: Callable[[str], object]
) -> Callable[[str, int], int]:
    def number(name: str, default: int) -> int:
        text = environment.get(name, "").strip() if name in environment else ""
        if not text:
            return default
        try:
            return int(text)
        except ValueError:
            complain(f"{name} is {text!r}: a whole number is needed")
            return default

    return number


def peoples_queue_faults(*, kept_s: int) -> Iterator[str]:
    """The fault of a queue that deletes messages for people before they can look at them."""
    if kept_s < _PEOPLES_QUEUE_S:
        yield (
            f"its messages are for people, and it keeps them for only {kept_s / _DAY_S:g} days:"
            f" use {_PEOPLES_QUEUE_S // _DAY_S} days, the longest that SQS allows"
        )
