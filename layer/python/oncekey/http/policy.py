"""The options of one protected HTTP operation, and how they make the engine's request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.engine.operation_options import OperationOptions
from oncekey.engine.request import Request, deadline_ms, refuse_suspension
from oncekey.errors import RequestRefused, StoreError
from oncekey.http.answer import stored_form
from oncekey.http.event import request_context
from oncekey.http.fingerprint import LeftOut, fingerprints
from oncekey.http.key import FIRST_SENT, HEADER, first_sent_ms, idempotency_key
from oncekey.record.identity import Identity
from oncekey.record.policy import Encoding
from oncekey.telemetry import requests as telemetry
from oncekey.tenants import NOBODY_WHILE_DISABLED, Caller, CallerSource, caller_of, why_nobody
from oncekey.value import Value, field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from oncekey.clock import Clock
    from oncekey.engine.store_state import OperationContext
    from oncekey.http.answer import Answer
    from oncekey.http.event import HttpRequest
    from oncekey.http.fingerprint import Selection
    from oncekey.http.methods import Methods
    from oncekey.http.preset import Preset
    from oncekey.quotas.quota import Quota
    from oncekey.record.record import Effects
    from oncekey.settings import Settings
    from oncekey.telemetry.operation_event import OnEvent

# Nothing was begun, so the client may retry soon.
_SOON_MS = 1_000


class HttpPolicy(Value, kw_only=True):
    """The checked options of one operation."""

    name: str
    tenant: CallerSource = field(repr=False)
    principal: CallerSource | None = field(repr=False)
    effects: Effects
    select: Selection | None = field(repr=False)
    left_out: LeftOut
    secrets: Callable[[], tuple[bytes, ...]] = field(repr=False)
    methods: Methods
    required: bool
    min_key_length: int
    stores_raw_key: bool
    is_not_executed: Callable[[BaseException], bool] = field(repr=False)
    preset: Preset
    is_final: Callable[[Answer], bool] = field(repr=False)
    stores_failures: bool
    response_version: int
    upgrade_response: Callable[[Answer, int], Answer] | None = field(repr=False)
    before_store: Callable[[Answer], Answer] | None = field(repr=False)
    # Header name in lower case → whether a replay repeats it. It overrides the rule.
    replay_headers: Mapping[str, bool]
    is_queued: bool
    completes_abandoned: bool
    quota: Quota | None
    on_event: OnEvent | None = field(repr=False)
    local_cache: int
    given_settings: Mapping[str, int | str]

    def needs_key(self, request: HttpRequest) -> bool:
        """Whether the request is protected. A key is ignored if the method needs none."""
        if request.method not in self.methods.keyed:
            if request.header_lines(HEADER):
                telemetry.key_ignored(self.name, request.method)
            return False
        if self.required or request.header_lines(HEADER):
            return True
        telemetry.unprotected(self.name)
        return False

    def caller(self, request: HttpRequest) -> Caller:
        """The sender of `request`, from the verified request context.

        Raises:
            RequestRefused: the tenant or the principal is not known (`tenant-missing`).
        """
        return Caller(
            tenant=self._named(self.tenant, request),
            principal=self._named(self.principal, request) if self.principal else "",
        )

    def caller_while_disabled(self, context: Mapping[str, Any]) -> Caller:
        """The same under ONCEKEY_DISABLED, when an event need not name its sender."""
        named = caller_of(self.principal, context) if self.principal else ""
        return Caller(
            tenant=caller_of(self.tenant, context) or NOBODY_WHILE_DISABLED,
            principal=NOBODY_WHILE_DISABLED if named is None else named,
        )

    def unnamed(self, caller: Caller, event: Mapping[str, Any]) -> Caller | None:
        """`caller`, if the stored form of `event` no longer names that caller; otherwise None."""
        from oncekey.engine.kept_event import kept_event

        context = request_context(kept_event(event))
        tenant = caller_of(self.tenant, context)
        principal = caller_of(self.principal, context) if self.principal else ""
        is_named = (tenant, principal) == (caller.tenant, caller.principal)
        return None if is_named else caller

    def sender(self, kept: Mapping[str, Any], request: HttpRequest) -> Caller:
        """The sender of a stored event: from the note stored with it, or from its context.

        A note is as trustworthy as the message that contains it. Wrong names give another identity
        and so another record, which the caller of this method checks.

        Raises:
            RequestRefused: as for `caller`.
        """
        from oncekey.engine.kept_event import sender_of

        noted = sender_of(kept)
        if noted is None:
            return self.caller(request)
        return Caller(tenant=noted[0], principal=noted[1] if self.principal else "")

    def options(self, settings: Settings) -> OperationOptions:
        """The options that all requests of this operation share under `settings`."""
        return OperationOptions(
            effects=self.effects,
            settings=settings,
            is_not_executed=self.is_not_executed,
            encoding=Encoding.HTTP,
            response_version=self.response_version,
            preset=self.preset.name,
            is_queued=self.is_queued,
            stores_raw_key=self.stores_raw_key,
            has_status_url=True,
            quota=self.quota,
            on_event=self.on_event,
            local_cache=self.local_cache,
        )

    def keyed_request(
        self,
        request: HttpRequest,
        caller: Caller,
        context: Any,
        operation_context: OperationContext,
        clock: Clock,
    ) -> Request:
        """The engine's request for `request` of `caller`.

        Raises:
            RequestRefused: the key is missing or malformed, or the request is malformed.
        """
        refuse_suspension(self.name, self.effects, (context,))
        settings = operation_context.options.settings
        key = idempotency_key(request.header_lines(HEADER), self.min_key_length)
        deadline = deadline_ms(context, settings, clock.now_ms())
        fingerprint = fingerprints(request, self.select, self._secrets(), self.left_out)
        return Request(
            identity=self._identity(caller, key),
            fingerprint=fingerprint.current,
            options=operation_context.options,
            deadline_ms=deadline,
            store_state=operation_context.store_state,
            accepts=fingerprint.accepts,
            first_sent_ms=first_sent_ms(request.header_lines(FIRST_SENT)),
            timed_out=self._timed_out(request, settings) if self.is_queued else None,
        )

    def accepted_request(
        self,
        request: HttpRequest,
        caller: Caller,
        context: Any,
        operation_context: OperationContext,
        clock: Clock,
    ) -> Request:
        """The same for a request that was accepted before, and that a worker runs.

        The record identifies it, so it needs no fingerprint. Its age was checked when it was
        accepted. It does not count as a new key.

        Raises:
            RequestRefused: as for `keyed_request`.
        """
        settings = operation_context.options.settings
        # The key was long enough when the request was accepted.
        key = idempotency_key(request.header_lines(HEADER), 1)
        return Request(
            identity=self._identity(caller, key),
            fingerprint="",
            options=operation_context.options_of_workers,
            deadline_ms=deadline_ms(context, settings, clock.now_ms()),
            store_state=operation_context.store_state,
            timed_out=self._timed_out(request, settings) if self.is_queued else None,
        )

    def _identity(self, caller: Caller, key: str) -> Identity:
        return Identity(
            tenant=caller.tenant, principal=caller.principal, operation=self.name, key=key
        )

    def _secrets(self) -> tuple[bytes, ...]:
        try:
            return self.secrets()
        except StoreError as error:
            # Without the secrets, nobody can tell whether it is the same request.
            telemetry.store_unavailable(self.name, error)
            detail = "The secrets of the service cannot be read now; nothing was done."
            raise RequestRefused("store-unavailable", detail, _SOON_MS) from error

    def _timed_out(self, request: HttpRequest, settings: Settings) -> str:
        answer = self.preset.refusal("not-started-in-time", base=settings.problem_base)
        return stored_form(answer, request.shape)

    def _named(self, source: CallerSource, request: HttpRequest) -> str:
        caller = caller_of(source, request.context)
        if caller is None:
            telemetry.caller_not_named(self.name, why_nobody(source, request.context))
            raise RequestRefused(
                "tenant-missing", "The verified request context does not say whose key this is."
            )
        return caller
