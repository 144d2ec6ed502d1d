"""One HTTP operation: when its handler is called, and what the caller is answered."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey import defaults
from oncekey.breaker import breaker_of
from oncekey.driver import drive
from oncekey.driver_async import drive_async
from oncekey.engine import Outcome, Refusal, attempt
from oncekey.errors import Final, NotExecuted, RequestRefused
from oncekey.http_answer import Answer, final_answer
from oncekey.http_event import HttpRequest, read_request, request_context
from oncekey.http_outcome import answer_to, refused
from oncekey.http_result import raised, returned
from oncekey.operation import Operation, running
from oncekey.outcome import Reason
from oncekey.settings import PROBLEM_BASE, Settings, is_disabled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oncekey.claim import Claim
    from oncekey.clock import Clock
    from oncekey.commands import Flow, Result
    from oncekey.http_policy import HttpPolicy
    from oncekey.store import Store

    Handler = Callable[[Any, Any, Operation], Any]
    AsyncHandler = Callable[[Any, Any, Operation], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Protected:
    """A request that is to be carried out under its key."""

    request: HttpRequest
    claim: Claim
    settings: Settings
    store: Store


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOperation:
    """A policy, where its records are, and the clock they are judged by."""

    policy: HttpPolicy
    store: Store | None
    clock: Clock

    def answer(self, handler: Handler, event: Any, context: Any) -> Any:
        """Answer `event`: by running `handler` under a lease, by replaying, or by refusing.

        Raises whatever an attempt raised that is neither `Final` nor `NotExecuted`; its record has
        been written first.
        """
        begun = self._begin(event, context)
        if begun is None:
            operation = self._bare_operation(event)
            with running(operation):
                try:
                    return handler(event, context, operation)
                except (Final, NotExecuted) as error:
                    return self._bare_answer(error)
        if not isinstance(begun, _Protected):
            return begun

        def invocation(operation: Operation) -> Result:
            try:
                with running(operation):
                    value = handler(event, context, operation)
            except BaseException as error:  # noqa: BLE001 -- its record comes first; it is raised again then
                return self._raised(error, begun)
            return returned(value, begun.request, self.policy)

        flow = self._attempt(begun)
        outcome = drive(flow, store=begun.store, clock=self.clock, invocation=invocation)
        return self._finish(outcome, begun)

    async def answer_async(self, handler: AsyncHandler, event: Any, context: Any) -> Any:
        """The same for a coroutine function; calls of the store leave the event loop free."""
        begun = self._begin(event, context)
        if begun is None:
            operation = self._bare_operation(event)
            with running(operation):
                try:
                    return await handler(event, context, operation)
                except (Final, NotExecuted) as error:
                    return self._bare_answer(error)
        if not isinstance(begun, _Protected):
            return begun

        async def invocation(operation: Operation) -> Result:
            try:
                with running(operation):
                    value = await handler(event, context, operation)
            except BaseException as error:  # noqa: BLE001 -- its record comes first; it is raised again then
                return self._raised(error, begun)
            return returned(value, begun.request, self.policy)

        flow = self._attempt(begun)
        outcome = await drive_async(
            flow, store=begun.store, clock=self.clock, invocation=invocation
        )
        return self._finish(outcome, begun)

    def _begin(self, event: Any, context: Any) -> _Protected | Answer | None:
        """The protected request, or the answer that it gets at once, or None: run bare."""
        if is_disabled(os.environ):
            return None
        settings = defaults.settings(self.policy.given_settings)
        store = self.store or defaults.store(settings.store_timeout_ms)
        request = read_request(event)
        if not self.policy.needs_key(request):
            return None
        try:
            claim = self.policy.claim(request, context, settings, self.clock)
        except RequestRefused as error:
            return refused(error.code, request, self.policy, settings, detail=error.detail)
        refused_for_ms = breaker_of(store).refuses_for_ms(self.clock.now_ms())
        if refused_for_ms:
            reason = Reason.STORE_UNAVAILABLE
            return refused(reason, request, self.policy, settings, retry_after_ms=refused_for_ms)
        return _Protected(request=request, claim=claim, settings=settings, store=store)

    def _attempt(self, protected: _Protected) -> Flow[Outcome]:
        return attempt(
            protected.claim,
            self.clock,
            call_timeout_ms=protected.store.call_timeout_ms,
            is_not_executed=self.policy.is_not_executed,
            has_bucket=protected.store.has_bucket,
        )

    def _raised(self, error: BaseException, protected: _Protected) -> Result:
        base = protected.settings.problem_base
        return raised(error, protected.request, self.policy, base)

    def _finish(self, outcome: Outcome, protected: _Protected) -> Answer:
        breaker = breaker_of(protected.store)
        if isinstance(outcome, Refusal) and outcome.reason is Reason.STORE_UNAVAILABLE:
            breaker.failed(self.clock.now_ms())
        else:
            breaker.succeeded()
        return answer_to(outcome, protected.request, self.policy, protected.settings)

    def _bare_operation(self, event: Any) -> Operation:
        caller = request_context(event)
        policy = self.policy
        return Operation(
            name=policy.name,
            operation_id=self.clock.new_operation_id(),
            attempt=1,
            tenant=policy.tenant(caller) or "",
            principal=(policy.principal(caller) or "") if policy.principal else "",
            protected=False,
        )

    def _bare_answer(self, error: Final | NotExecuted) -> Answer:
        if isinstance(error, Final):
            return final_answer(error)
        return self.policy.preset.refusal("not-executed", base=PROBLEM_BASE, retry_after_ms=1_000)
