"""The plays of `assert_idempotent`. Each is one disturbance of a handler's work."""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from oncekey.record.record import Status
from oncekey.tenants import SINGLE_TENANT
from oncekey.testing.checking import altered_events, mistakes
from oncekey.testing.checking.answers import is_key_reused, is_replay, is_success, said, status_of
from oncekey.testing.checking.lock_step import LockStep
from oncekey.testing.checking.promises import (
    REPLAYED,
    Broken,
    check_end,
    check_no_more,
    check_not_stored,
    check_one_reserved,
    check_replay,
    check_rows_after_crash,
    check_stored_failure,
    told,
)
from oncekey.testing.checking.runs import First, Subject, effects_on, to_the_end
from oncekey.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from oncekey.testing.checking.processes import Sent
    from oncekey.testing.checking.stage import Stage
    from oncekey.testing.crash_points import CrashPoint

_PROCESSES_AT_ONCE = 5
_SEEDS = 4


class Plays(Value):
    """The plays that `subject` can be put through. `first` is its undisturbed run."""

    subject: Subject
    first: First

    def by_name(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """The plays, in their order. Each raises `Broken` if a promise does not hold."""
        subject = self.subject
        yield "again", self.again
        if subject.is_http:
            yield "another key", self.another_key
            yield "changed headers", self.changed_headers
        if any(True for _ in self._other_bodies()):
            yield "another body", self.another_body
        others = self._other_tenants()
        if others:
            yield "another tenant", partial(self.another_tenant, others)
        yield "five at once", self.five_at_once
        if subject.failing is not None:
            yield "the provider fails", partial(self.provider_fails, subject.failing)
        for point in self.first.points:
            yield f"kill {point}", partial(self.killed, point)

    def again(self) -> None:
        """The client never got the answer, and sends the event again."""
        stage, event = self.subject.stage(), self.subject.request()
        sent = to_the_end(stage, event)
        check_replay(self.subject, self.first, stage, event, answered=sent[-1])

    def another_key(self) -> None:
        """The client wants the same once more, and sends another key."""
        promise = "another key is another operation"
        stage = self.subject.stage()
        first_answer = to_the_end(stage, self.subject.request())[-1]
        before = effects_on(stage)
        sent = to_the_end(stage, self.subject.request())
        if sent[0].error is None and not sent[0].process.reserved:
            seen = f"no new operation: {told(sent[0])}"
            raise Broken(promise, seen, mistakes.KEY_FROM_BODY)
        # A provider that is emptied before each play may know the order by its own number.
        if self.subject.reset is None:
            self._check_own_effect(stage, first_answer, before, sent, promise)

    def changed_headers(self) -> None:
        """The client chooses other values of the headers, one by one."""
        event = self.subject.request()
        for name in altered_events.changeable_headers(event):
            stage = self.subject.stage()
            to_the_end(stage, copy.deepcopy(event))
            sent = stage.send(altered_events.with_changed_header(event, name))
            if not sent.process.reserved:
                check_no_more(self.subject, self.first, stage, sent, REPLAYED)
                continue
            is_tenant = sent.process.reserved[0].tenant != self.first.record.tenant
            seen = f"with another {name!r}, the same key was a new operation: {told(sent)}"
            blamed = mistakes.tenant_from_header if is_tenant else mistakes.key_from_header
            raise Broken("key and tenant are not the client's to choose", seen, blamed(name))

    def another_body(self) -> None:
        """The client uses the key again for other requests."""
        promise = "the same key with another body is refused, and has no effect"
        stage, event = self.subject.stage(), self.subject.request()
        to_the_end(stage, event)
        ignored: dict[str, None] = {}
        is_refused = False
        for path, each in self._other_bodies():
            sent = stage.send(self._keyed_as(event, each))
            if sent.process.reserved:
                is_tenant = sent.process.reserved[0].tenant != self.first.record.tenant
                key = mistakes.KEY_FROM_BODY if self.subject.is_http else mistakes.KEY_TOO_WIDE
                blamed = mistakes.TENANT_FROM_BODY if is_tenant else key
                raise Broken(promise, f"it was a new operation: {told(sent)}", blamed)
            check_no_more(self.subject, self.first, stage, sent, promise)
            if is_key_reused(sent.value, sent.error):
                is_refused = True
            elif (is_replay(sent.value) or not self.subject.is_http) and not self._is_ignored(path):
                ignored.setdefault(path)
        if ignored:
            seen = "each of them got the first answer"
            if is_refused:
                seen = f"the first answer, with another value of {', '.join(map(repr, ignored))}"
            raise Broken(promise, seen, mistakes.fingerprint_ignores([*ignored]))

    def another_tenant(self, others: Sequence[Any]) -> None:
        """Another tenant happens to use the same key."""
        for other in others:
            self._check_tenant(other)

    def _check_tenant(self, other: Any) -> None:
        promise = "another tenant's request with the same key is an operation of its own"
        stage, event = self.subject.stage(), self.subject.request()
        first_answer = to_the_end(stage, event)[-1]
        before = effects_on(stage)
        sent = to_the_end(stage, self._keyed_as(event, other))
        if sent[0].error is None and not sent[0].process.reserved:
            is_replayed = said(sent[0].value) == said(first_answer.value)
            seen = "the first tenant's answer" if is_replayed else told(sent[0])
            status = status_of(sent[0].value) or 0
            is_shared = is_replayed or is_key_reused(sent[0].value, None) or not 400 <= status < 500
            blamed = mistakes.TENANT_SHARED if is_shared else mistakes.TENANT_REFUSED
            raise Broken(promise, f"it got {seen}", blamed)
        self._check_own_effect(stage, first_answer, before, sent, promise)

    def _check_own_effect(
        self, stage: Stage, first: Sent, before: int, sent: Sequence[Sent], promise: str
    ) -> None:
        """An operation that succeeded had an effect, if the undisturbed run had.

        `before` is the number of effects that there were before it.
        """
        last = sent[-1]
        expected = sum(self.first.grown.values()) + self.first.written
        if not expected or effects_on(stage) > before or not is_success(last.value, last.error):
            return
        record = stage.store.read(sent[0].process.reserved[0].pk)
        if record is None or record.status is not Status.COMPLETED:
            return
        is_first = said(last.value) == said(first.value)
        got = "the first answer" if is_first else "an answer"
        raise Broken(promise, f"it got {got}, and had no effect: {told(last)}", mistakes.REMEMBERED)

    def five_at_once(self) -> None:
        """Five requests with one key run at once, in several interleavings."""
        for seed in range(self.subject.seed, self.subject.seed + _SEEDS):
            stage, event = self.subject.stage(), self.subject.request()
            events = [copy.deepcopy(event) for _ in range(_PROCESSES_AT_ONCE)]
            sent = stage.send_at_once(events, LockStep(seed))
            answered = to_the_end(stage, event)[-1]
            try:
                check_one_reserved(self.subject, sent)
                check_end(self.subject, self.first, stage)
                check_replay(self.subject, self.first, stage, event, answered=answered)
            except Broken as broken:
                broken.seed = seed
                raise

    def provider_fails(self, failing: Callable[[], AbstractContextManager[object]]) -> None:
        """The provider fails, and works again when the client retries."""
        stage, event = self.subject.stage(), self.subject.request()
        with failing():
            failed = stage.send(event)
            stage.deliver()
        record = stage.record()
        if record is None:
            return
        check_not_stored(record, failed, "a failure is not final: the same key may succeed later")
        if record.status is Status.COMPLETED:
            # It failed for good, such as a declined card, or needed no provider.
            check_stored_failure(self.subject, self.first, stage)
            return
        to_the_end(stage, event)
        check_end(self.subject, self.first, stage)

    def killed(self, point: CrashPoint) -> None:
        """The process dies there. The client retries, and the reconciler runs."""
        stage, event = self.subject.stage(point), self.subject.request()
        at_kill = partial(check_rows_after_crash, self.subject, self.first, stage)
        answered = to_the_end(stage, event, at_kill=at_kill)[-1]
        check_end(self.subject, self.first, stage)
        record = stage.record()
        if record is not None and record.status is Status.COMPLETED:
            check_replay(self.subject, self.first, stage, event, answered=answered)

    def _other_tenants(self) -> list[Any]:
        if self.subject.other_tenant is not None:
            return [self.subject.other_tenant]
        event, tenant = self.subject.event, self.first.record.tenant
        if tenant == SINGLE_TENANT:
            return []
        others = (
            altered_events.with_other_tenant(event, tenant),
            altered_events.with_other_claims(event, tenant),
        )
        return [each for each in others if each is not None]

    def _is_ignored(self, path: str) -> bool:
        return any(f"{path}.".startswith(f"{each}.") for each in self.subject.ignored)

    def _other_bodies(self) -> Iterator[tuple[str, Any]]:
        """Other requests, each with the path of what differs; one at a time, as there are many."""
        if self.subject.other_body is not None:
            yield "", self.subject.other_body
        elif self.subject.is_http:
            yield from altered_events.with_changed_bodies(self.subject.event)

    def _keyed_as(self, event: Any, other: Any) -> Any:
        if not self.subject.is_http:
            return copy.deepcopy(other)
        return altered_events.with_key(other, altered_events.key_of(event).strip('"'))
