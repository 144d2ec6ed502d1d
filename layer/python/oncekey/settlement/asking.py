"""Asking a resolver, which may raise, return a wrong value, or never return."""

from __future__ import annotations

import contextvars
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

from oncekey.errors import NotExecuted
from oncekey.flow.commands import Outside
from oncekey.settlement.resolvers import StillUnknown, is_finding
from oncekey.telemetry import settlements as telemetry
from oncekey.value import field

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.record.record import Record
    from oncekey.settlement.resolvers import Finding, Question

_AGAIN = StillUnknown(timedelta(0))


class AskResolver(Outside["Finding"], kw_only=True):
    """Ask a resolver, as `ask` does. The answer is its finding; no error is thrown."""

    question: Question
    resolve: Callable[[Question], Finding] = field(compare=False)
    record: Record = field(repr=False)
    now_ms: int
    timeout_ms: int | None

    def carry_out(self) -> Finding:
        """See `ask`."""
        return ask(self.resolve, self.question, self.record, self.now_ms, self.timeout_ms)


def ask(
    resolve: Callable[[Question], Finding],
    question: Question,
    record: Record,
    now_ms: int,
    timeout_ms: int | None,
) -> Finding:
    """The finding of `resolve` about `record`; `StillUnknown` if it raises or returns no finding.

    With a `timeout_ms`, this returns `StillUnknown` after that time, so a call that hangs costs
    only its own record a turn. The call continues in its thread, but its result is ignored. The
    resolver is asked again in a later turn.
    """
    if timeout_ms is None:
        return _checked(lambda: resolve(question), record, now_ms)
    findings: list[Finding] = []
    context = contextvars.copy_context()
    thread = threading.Thread(
        target=lambda: findings.append(
            context.run(_apart, lambda: resolve(question), record, now_ms)
        ),
        name=f"oncekey-resolver-{record.operation_id}",
        # A resolver that hangs for ever must not keep the process alive.
        daemon=True,
    )
    try:
        thread.start()
    except RuntimeError:
        # Resolvers that hang have used up the sandbox's threads.
        telemetry.resolver_failed(record, now_ms, "there is no thread left to ask it in")
        return _AGAIN
    thread.join(timeout_ms / 1000)
    if not findings:
        telemetry.resolver_failed(record, now_ms, "it did not answer in time")
        return _AGAIN
    return findings[0]


def _apart(call: Callable[[], Finding], record: Record, now_ms: int) -> Finding:
    try:
        return _checked(call, record, now_ms)
    except BaseException as ending:  # noqa: BLE001 -- an exit ends only this thread
        telemetry.resolver_failed(record, now_ms, type(ending).__name__)
        return _AGAIN


def _checked(call: Callable[[], Finding], record: Record, now_ms: int) -> Finding:
    try:
        answer = call()
    except Exception as error:  # noqa: BLE001 -- a resolver that raises does not know
        # This includes `NotExecuted`. A helper may have raised it because it did not ask the
        # provider. A resolver returns its finding and does not raise it.
        hint = ": a finding is returned, not raised" if isinstance(error, NotExecuted) else ""
        telemetry.resolver_failed(record, now_ms, f"{type(error).__name__}{hint}")
        return _AGAIN
    if is_finding(answer):
        return answer
    telemetry.resolver_failed(record, now_ms, "no answer of a resolver")
    return _AGAIN
