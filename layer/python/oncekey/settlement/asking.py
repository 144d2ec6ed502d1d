"""Asking a resolver, which may raise, answer nonsense, or never answer."""

from __future__ import annotations

import contextvars
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

from oncekey.errors import NotExecuted
from oncekey.flow.commands import Outside
from oncekey.settlement.resolvers import StillUnknown, is_finding
from oncekey.telemetry import requests as telemetry
from oncekey.value import field

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.record.record import Record
    from oncekey.settlement.resolvers import Finding, Question

_AGAIN = StillUnknown(timedelta(0))


class AskResolver(Outside["Finding"], kw_only=True):
    """Ask a resolver, as `ask` does. Answers its finding, and never throws."""

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
    """What `resolve` finds out about `record`; `StillUnknown` if it does not say.

    With a `timeout_ms` it is left to itself after that time: a call that hangs costs its record the
    turn and nobody else's. What it says afterwards is heard by no one; it is asked again.
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
        # One that hangs for ever must not keep the process.
        daemon=True,
    )
    try:
        thread.start()
    except RuntimeError:
        # Those that hang have used up what the sandbox may have.
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
    except BaseException as ending:  # noqa: BLE001 -- an exit ends this thread and nobody else
        telemetry.resolver_failed(record, now_ms, type(ending).__name__)
        return _AGAIN


def _checked(call: Callable[[], Finding], record: Record, now_ms: int) -> Finding:
    try:
        answer = call()
    except Exception as error:  # noqa: BLE001 -- who cannot answer does not know
        # Also `NotExecuted`: what is raised may come from a helper, and says of a question, or a
        # setting, that it was not. What the resolver has found out, it returns.
        hint = ": a finding is returned, not raised" if isinstance(error, NotExecuted) else ""
        telemetry.resolver_failed(record, now_ms, f"{type(error).__name__}{hint}")
        return _AGAIN
    if is_finding(answer):
        return answer
    telemetry.resolver_failed(record, now_ms, "no answer of a resolver")
    return _AGAIN
