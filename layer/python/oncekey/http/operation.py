"""One HTTP operation: it handles a request, from its event to its answer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from oncekey.effects.operation import Operation
from oncekey.engine.engine import attempt, unreserved
from oncekey.engine.operation_options import nothing_proves_it
from oncekey.engine.request import remaining_ms
from oncekey.engine.reservation import reserve
from oncekey.engine.store_state import OperationContext
from oncekey.environment import OncePerEnvironment
from oncekey.errors import ConfigurationError, RequestRefused, StoreError
from oncekey.flow.retry import few_tries
from oncekey.http.answer import with_headers
from oncekey.http.event import read_request, request_context, unread_request
from oncekey.http.fingerprint import may_be_json
from oncekey.http.methods import SAFE
from oncekey.http.outcome import answer_to, refused
from oncekey.http.result import raised, raised_bare, returned, returned_to_worker
from oncekey.record.outcome import RETRY_SOON_MS, Failed, Reason, Refusal, Unrecorded
from oncekey.settings import DEFAULT_LEASE_MS
from oncekey.store import defaults, in_use
from oncekey.telemetry import requests as telemetry
from oncekey.telemetry import watching
from oncekey.value import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.clock import Clock
    from oncekey.engine.engine import Reserving
    from oncekey.engine.job import Job, JobMessage
    from oncekey.engine.request import Request
    from oncekey.flow.commands import Flow, Result
    from oncekey.http.answer import Answer
    from oncekey.http.event import HttpRequest
    from oncekey.http.policy import HttpPolicy
    from oncekey.record.outcome import Outcome
    from oncekey.store.store import Store
    from oncekey.tenants import Caller


# An attribute of the protected handler. Other decorators copy it to their wrappers.
_ATTRIBUTE = "__oncekey_http__"


class HttpOperation:
    """A policy with the store of its records and a clock.

    `call` and `work` are flows. `oncekey.engine.execution` runs them with the handler.
    """

    def __init__(self, *, policy: HttpPolicy, store: Store | None, clock: Clock | None) -> None:
        self.policy = policy
        self.store = store
        self._given_clock = clock
        self._settings = OncePerEnvironment(lambda: defaults.settings(policy.given_settings))
        # Raises ConfigurationError if neither a store is given nor a table is named.
        self.find_store = OncePerEnvironment(self._found_store)
        self._operation_context = OncePerEnvironment(self._made)

    @property
    def clock(self) -> Clock:
        """The clock in use."""
        return in_use.clock_or(self._given_clock)

    def __repr__(self) -> str:
        """The policy, which contains no secret."""
        return f"HttpOperation({self.policy!r})"

    async def call(self, event: Any, context: Any) -> Any:
        """The answer to `event`: the handler's, a replay or a refusal.

        It is `Failed` if the attempt raised neither `Final` nor `NotExecuted`. The record is
        written before that is returned.
        """
        policy = self.policy
        if defaults.is_disabled():
            caller = policy.caller_while_disabled(request_context(event))
            return await self._unprotected(unread_request(event), caller, context)
        request = read_request(event)
        try:
            # This comes first, because a request without a key needs a tenant, too.
            caller = policy.caller(request)
            if request.method not in policy.methods.allowed:
                return self._method_refused(request)
            if not policy.needs_key(request):
                refusal = await self._paused(request, caller)
                if refusal is not None:
                    return answer_to(refusal, request, policy, self._settings())
                return await self._unprotected(request, caller, context)
            operation_context = self._operation_context()
            keyed = policy.keyed_request(request, caller, context, operation_context, self.clock)
            if policy.is_queued:
                keyed = replace(
                    keyed, job=self._job(event, request, caller, operation_context.store)
                )
            if policy.completes_abandoned:
                from oncekey.engine.job import kept_request

                sender = policy.unnamed(caller, event)
                keyed = replace(keyed, stored_event=kept_request(event, policy.name, sender))
        except RequestRefused as error:
            watching.flush(self.clock.now_ms(), policy.name)
            return refused(
                error.code,
                request,
                policy,
                self._settings(),
                detail=error.detail,
                retry_after_ms=error.retry_after_ms,
            )
        outcome = await self._attempt(keyed, request, reserve)
        return answer_to(outcome, request, policy, operation_context.options.settings)

    async def work(self, message: JobMessage, context: Any) -> Outcome:
        """Run an accepted request in a worker, and return its outcome.

        Raises:
            RequestRefused: the request does not have the form that this release needs.
        """
        from oncekey.engine.job_begin import begin

        if defaults.is_disabled():
            caller = self.policy.caller_while_disabled(request_context(message.event))
            request = unread_request(message.event)
            outcome = await self._bare(request, caller, context, returned_to_worker)
            if isinstance(outcome, Unrecorded) and not outcome.is_final:
                return Refusal(reason=Reason.UNFINISHED, retry_after_ms=RETRY_SOON_MS)
            return outcome
        request = read_request(message.event)
        caller = self.policy.sender(message.event, request)
        operation_context = self._operation_context()
        keyed = self.policy.accepted_request(
            request, caller, context, operation_context, self.clock
        )
        if keyed.pk != message.pk:
            detail = "Key, tenant or principal are not those that it was accepted for."
            raise RequestRefused("request-invalid", detail)
        return await self._attempt(keyed, request, partial(begin, message))

    def _found_store(self) -> Store:
        return defaults.store(self._settings().store_timeout_ms, self.store)

    def _made(self) -> OperationContext:
        return OperationContext(self.policy.options(self._settings()), self.find_store())

    def _attempt(self, keyed: Request, request: HttpRequest, reserving: Reserving) -> Flow[Outcome]:
        policy, base = self.policy, keyed.options.settings.problem_base
        return attempt(
            keyed,
            self.clock,
            reserving=reserving,
            returned=lambda value, operation: returned(value, request, policy, operation),
            raised=lambda error: raised(error, request, policy, base),
        )

    async def _unprotected(self, request: HttpRequest, caller: Caller, context: Any) -> Any:
        outcome = await self._bare(request, caller, context)
        # A passed-on value needs no settings, because a disabled call needs no environment.
        if isinstance(outcome, Unrecorded):
            return outcome.value
        return (
            outcome
            if isinstance(outcome, Failed)
            else answer_to(outcome, request, self.policy, self._settings())
        )

    async def _paused(self, request: HttpRequest, caller: Caller) -> Refusal | None:
        """The refusal of a request without a key, if it changes something and is paused."""
        if not self._settings().pause_check_s or request.method in SAFE:
            return None
        from oncekey.engine.pausing import paused_for, refusal_of

        shared, name = self._operation_context(), self.policy.name
        settings, state = shared.options.settings, shared.store_state
        budget = few_tries(self.clock.now_ms(), state.call_timeout_ms)
        with watching.counted_for(caller.tenant, name, self.clock):
            try:
                pause = await paused_for(name, caller.tenant, settings, state, budget, self.clock)
            except StoreError as error:
                return unreserved(error, name)
            return None if pause is None else refusal_of(pause, name)

    def _bare(
        self,
        request: HttpRequest,
        caller: Caller,
        context: Any,
        returned: Callable[..., Result] = returned,
    ) -> Flow[Outcome]:
        from oncekey.effects.bare_run import run_bare

        policy, now_ms = self.policy, self.clock.now_ms()
        operation = Operation(
            name=policy.name,
            operation_id=self.clock.new_operation_id(),
            attempt=1,
            tenant=caller.tenant,
            principal=caller.principal,
            protected=False,
        )
        left_ms = remaining_ms(context)
        return run_bare(
            operation,
            policy.effects,
            now_ms + (DEFAULT_LEASE_MS if left_ms is None else left_ms),
            self.clock,
            # Without a record, only `NotExecuted` itself gives an answer. Other errors are raised.
            is_not_executed=nothing_proves_it,
            returned=lambda value, operation: returned(value, request, policy, operation),
            raised=lambda error: raised_bare(error, request.shape),
        )

    def _method_refused(self, request: HttpRequest) -> Answer:
        telemetry.method_refused(self.policy.name, request.method)
        answer = refused("method-not-allowed", request, self.policy, self._settings())
        return with_headers(answer, {"Allow": self.policy.methods.allow}, request.shape)

    def _job(self, event: Any, request: HttpRequest, caller: Caller, store: Store) -> Job:
        from oncekey.engine.job import Job, check_depth, event_text

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


def mark_protected(wrapper: Any, operation: HttpOperation) -> None:
    """Attach `operation` to the handler that it protects, for `protection_of`."""
    setattr(wrapper, _ATTRIBUTE, operation)


def protection_of(handler: object) -> HttpOperation | None:
    """The operation that protects `handler`; None if none does."""
    operation = getattr(handler, _ATTRIBUTE, None)
    return operation if isinstance(operation, HttpOperation) else None
