"""One HTTP operation: when its handler is called, and what the caller is answered."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from oncekey.effects.operation import Operation, running
from oncekey.engine.bare_call import BareCall
from oncekey.engine.execution import Execution
from oncekey.engine.job import Job, check_depth, event_text, kept_request
from oncekey.engine.job_begin import begin
from oncekey.engine.kept_event import without_sender
from oncekey.errors import ConfigurationError, RequestRefused
from oncekey.http.answer import with_headers
from oncekey.http.bare import BareHttp
from oncekey.http.event import HttpRequest, read_request, request_context
from oncekey.http.fingerprint import may_be_json
from oncekey.http.outcome import answer_to, refused
from oncekey.http.result import raised, returned
from oncekey.settings import Settings, is_disabled
from oncekey.store import defaults
from oncekey.telemetry import requests as telemetry
from oncekey.tenants import Caller

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oncekey.clock import Clock
    from oncekey.engine.claim import Claim
    from oncekey.engine.job import JobMessage
    from oncekey.flow.commands import Result
    from oncekey.http.answer import Answer
    from oncekey.http.policy import HttpPolicy
    from oncekey.record.outcome import Outcome
    from oncekey.store.store import Store

    Handler = Callable[[Any, Any, Operation], Any]
    AsyncHandler = Callable[[Any, Any, Operation], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Protected:
    """A request that is to be carried out under its key."""

    request: HttpRequest
    claim: Claim
    settings: Settings
    execution: Execution


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
        if isinstance(begun, Caller):
            return self._bare(begun).answer(handler, event, context)
        if not isinstance(begun, _Protected):
            return begun

        outcome = begun.execution.run(begun.claim, self._invocation(handler, event, context, begun))
        return answer_to(outcome, begun.request, self.policy, begun.settings)

    async def answer_async(self, handler: AsyncHandler, event: Any, context: Any) -> Any:
        """The same for a coroutine function; calls of the store leave the event loop free."""
        begun = self._begin(event, context)
        if isinstance(begun, Caller):
            return await self._bare(begun).answer_async(handler, event, context)
        if not isinstance(begun, _Protected):
            return begun

        invocation = self._invocation_async(handler, event, context, begun)
        outcome = await begun.execution.run_async(begun.claim, invocation)
        return answer_to(outcome, begun.request, self.policy, begun.settings)

    def work(self, handler: Handler, message: JobMessage, context: Any) -> Outcome:
        """Carry out an accepted request in a worker: what became of it.

        Raises:
            RequestRefused: it does not have the form that this release's operation needs.
        """
        begun = self._taken_up(message, context)
        event = without_sender(message.event)
        invocation = self._invocation(handler, event, context, begun)
        return begun.execution.run(begun.claim, invocation, partial(begin, message))

    async def work_async(self, handler: AsyncHandler, message: JobMessage, context: Any) -> Outcome:
        """The same for a coroutine function."""
        begun = self._taken_up(message, context)
        event = without_sender(message.event)
        invocation = self._invocation_async(handler, event, context, begun)
        return await begun.execution.run_async(begun.claim, invocation, partial(begin, message))

    def _invocation(
        self, handler: Handler, event: Any, context: Any, begun: _Protected
    ) -> Callable[[Operation], Result]:
        def invocation(operation: Operation) -> Result:
            try:
                with running(operation):
                    value = handler(event, context, operation)
            except BaseException as error:  # noqa: BLE001 -- its record comes first; it is raised again then
                return self._raised(error, begun)
            return returned(value, begun.request, self.policy, operation)

        return invocation

    def _invocation_async(
        self, handler: AsyncHandler, event: Any, context: Any, begun: _Protected
    ) -> Callable[[Operation], Awaitable[Result]]:
        async def invocation(operation: Operation) -> Result:
            try:
                with running(operation):
                    value = await handler(event, context, operation)
            except BaseException as error:  # noqa: BLE001 -- its record comes first; it is raised again then
                return self._raised(error, begun)
            return returned(value, begun.request, self.policy, operation)

        return invocation

    def _begin(self, event: Any, context: Any) -> _Protected | Answer | Caller:
        """The protected request, or the answer that it gets at once, or for whom it runs bare."""
        if is_disabled(os.environ):
            return self.policy.caller_while_disabled(request_context(event))
        request = read_request(event)
        try:
            # First of all: what needs no key runs for somebody, too.
            caller = self.policy.caller(request)
        except RequestRefused as error:
            settings = defaults.settings(self.policy.given_settings)
            return refused(error.code, request, self.policy, settings, detail=error.detail)
        if request.method not in self.policy.methods.allowed:
            return self._method_refused(request)
        if not self.policy.needs_key(request):
            return caller
        return self._claimed(request, caller, event, context)

    def _method_refused(self, request: HttpRequest) -> Answer:
        telemetry.method_refused(self.policy.name, request.method)
        settings = defaults.settings(self.policy.given_settings)
        answer = refused("method-not-allowed", request, self.policy, settings)
        return with_headers(answer, {"Allow": self.policy.methods.allow}, request.shape)

    def _claimed(
        self, request: HttpRequest, caller: Caller, event: Any, context: Any
    ) -> _Protected | Answer:
        settings = defaults.settings(self.policy.given_settings)
        store = self.store or defaults.store(settings.store_timeout_ms)
        try:
            claim = self.policy.claim(request, caller, context, settings, self.clock)
            if self.policy.is_queued:
                claim = replace(claim, job=self._job(event, request, caller, store))
            if self.policy.completes_abandoned:
                sender = self.policy.unnamed(caller, event)
                claim = replace(claim, request=kept_request(event, self.policy.name, sender))
        except RequestRefused as error:
            return refused(
                error.code,
                request,
                self.policy,
                settings,
                detail=error.detail,
                retry_after_ms=error.retry_after_ms,
            )
        return self._protected(request, claim, settings, store)

    def _taken_up(self, message: JobMessage, context: Any) -> _Protected:
        request = read_request(message.event)
        settings = defaults.settings(self.policy.given_settings)
        store = self.store or defaults.store(settings.store_timeout_ms)
        caller = self.policy.sender(message.event, request)
        claim = self.policy.claim(request, caller, context, settings, self.clock, is_accepted=True)
        if claim.pk != message.pk:
            detail = "Key, tenant or principal are not those that it was accepted for."
            raise RequestRefused("request-invalid", detail)
        return self._protected(request, claim, settings, store)

    def _protected(
        self, request: HttpRequest, claim: Claim, settings: Settings, store: Store
    ) -> _Protected:
        execution = Execution(
            store=store,
            clock=self.clock,
            is_not_executed=self.policy.is_not_executed,
            result_of=lambda error: raised(error, request, self.policy, settings.problem_base),
        )
        return _Protected(request=request, claim=claim, settings=settings, execution=execution)

    def _job(self, event: Any, request: HttpRequest, caller: Caller, store: Store) -> Job:
        if not store.has_outbox:
            fault = (
                "mode='queued' needs an outbox: name its table in ONCEKEY_OUTBOX_TABLE, or pass"
                " store=DynamoDBStore(table, outbox=...)"
            )
            raise ConfigurationError(f"@idempotent(operation={self.policy.name!r})", [fault])
        is_json = may_be_json(request.media_type, request.body)
        check_depth(event, request.body if is_json else b"")
        sender = self.policy.unnamed(caller, event)
        return Job(event=event_text(event, has_bucket=store.has_bucket, sender=sender))

    def _raised(self, error: BaseException, protected: _Protected) -> Result:
        base = protected.settings.problem_base
        return raised(error, protected.request, self.policy, base)

    def _bare(self, caller: Caller) -> BareHttp:
        policy = self.policy
        operation = Operation(
            name=policy.name,
            operation_id=self.clock.new_operation_id(),
            attempt=1,
            tenant=caller.tenant,
            principal=caller.principal,
            protected=False,
        )
        bare = BareCall(
            operation=operation,
            effects=policy.effects,
            clock=self.clock,
            store=lambda: (
                self.store
                or defaults.store(defaults.settings(policy.given_settings).store_timeout_ms)
            ),
        )
        return BareHttp(policy=policy, call=bare)
