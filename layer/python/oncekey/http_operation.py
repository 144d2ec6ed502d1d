"""One HTTP operation: when its handler is called, and what the caller is answered."""

from __future__ import annotations

import os
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oncekey import telemetry
from oncekey.claim import Claim, remaining_ms
from oncekey.commands import Answered, Raised
from oncekey.driver import drive
from oncekey.dynamodb_store import DynamoDBStore
from oncekey.engine import Failed, Outcome, Ran, attempt
from oncekey.errors import Final, NotExecuted, RequestRefused, StoreError
from oncekey.fingerprint import Selection, fingerprint
from oncekey.http_answer import (
    Answer,
    answer_from,
    final_answer,
    is_final,
    stored_form,
    with_headers,
)
from oncekey.http_event import HttpRequest, read_request, request_context
from oncekey.http_key import HEADER, idempotency_key
from oncekey.identity import Identity
from oncekey.operation import Operation, running
from oncekey.problem import problem_answer
from oncekey.record import RESPONSE_VERSION, Effects, Record
from oncekey.reservation import Reason, Refusal, Replayed
from oncekey.settings import Settings, is_disabled, settings_from, table_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from oncekey.clock import Clock
    from oncekey.store import Store
    from oncekey.tenants import CallerSource

    Handler = Callable[[Any, Any, Operation], Any]

# A different value of any of these makes another store; in Lambda none ever changes.
_CONNECTION = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOperation:
    """The options of one decorated handler, all checked."""

    name: str
    tenant: CallerSource
    principal: CallerSource | None
    effects: Effects
    select: Selection | None
    methods: frozenset[str]
    min_key_length: int
    is_not_executed: Callable[[BaseException], bool]
    given_settings: Mapping[str, int | str]
    store: Store | None
    clock: Clock

    def answer(self, handler: Handler, event: Any, context: Any) -> Any:
        """Answer `event`: by running `handler` under a lease, by replaying, or by refusing.

        Raises whatever an attempt raised that is neither `Final` nor `NotExecuted`; its record has
        been written first.
        """
        if is_disabled(os.environ):
            return self._run_bare(handler, event, context)
        settings = _settings(os.environ, self.given_settings)
        store = self.store or _default_store(
            table_name(os.environ), settings.store_timeout_ms, _connection()
        )
        request = read_request(event)
        if request.method not in self.methods:
            return self._run_bare(handler, event, context)
        try:
            claim = self._claim(request, context, settings)
        except RequestRefused as refused:
            problem = problem_answer(
                refused.code, base=settings.problem_base, detail=refused.detail
            )
            return with_headers(problem, {}, request.shape)
        flow = attempt(
            claim,
            self.clock,
            call_timeout_ms=store.call_timeout_ms,
            is_not_executed=self.is_not_executed,
        )
        invocation = _invocation(handler, event, context, request)
        outcome = drive(flow, store=store, clock=self.clock, invocation=invocation)
        return _answer_to(outcome, request, settings, self.name)

    def _claim(self, request: HttpRequest, context: Any, settings: Settings) -> Claim:
        identity = Identity(
            tenant=_caller(self.tenant, request),
            principal=_caller(self.principal, request) if self.principal else "",
            operation=self.name,
            key=idempotency_key(request.header_lines(HEADER), self.min_key_length),
        )
        left_ms = remaining_ms(context)
        now_ms = self.clock.now_ms()
        deadline_ms = now_ms + (settings.default_lease_ms if left_ms is None else left_ms)
        if settings.retention_ms <= deadline_ms - now_ms + settings.lease_margin_ms:
            telemetry.retention_too_short(self.name, settings.retention_s)
        return Claim(
            identity=identity,
            fingerprint=fingerprint(request, self.select),
            effects=self.effects,
            settings=settings,
            deadline_ms=deadline_ms,
        )

    def _run_bare(self, handler: Handler, event: Any, context: Any) -> Any:
        caller = request_context(event)
        operation = Operation(
            name=self.name,
            operation_id=self.clock.new_operation_id(),
            attempt=1,
            tenant=self.tenant(caller) or "",
            principal=(self.principal(caller) or "") if self.principal else "",
            protected=False,
        )
        with running(operation):
            try:
                return handler(event, context, operation)
            except Final as final:
                return final_answer(final)
            except NotExecuted:
                return problem_answer(
                    "not-executed", base=Settings().problem_base, retry_after_ms=1_000
                )


def _caller(source: CallerSource, request: HttpRequest) -> str:
    caller = source(request.context)
    if not caller:
        raise RequestRefused(
            "tenant-missing", "The verified request context does not say whose key this is."
        )
    return caller


def _invocation(
    handler: Handler, event: Any, context: Any, request: HttpRequest
) -> Callable[[Operation], Answered[Answer] | Raised]:
    def invoke(operation: Operation) -> Answered[Answer] | Raised:
        try:
            with running(operation):
                returned, is_last_word = _ended(handler, event, context, operation)
            stored = stored_form(returned, request.shape)
        except BaseException as error:  # noqa: BLE001 -- its record comes first; it is raised again then
            return Raised(error)
        answer = answer_from(stored)
        return Answered(value=answer, stored=stored, is_final=is_last_word or is_final(answer))

    return invoke


def _ended(handler: Handler, event: Any, context: Any, operation: Operation) -> tuple[Any, bool]:
    try:
        return handler(event, context, operation), False
    except Final as final:
        return final_answer(final), True


def _answer_to(
    outcome: Outcome, request: HttpRequest, settings: Settings, operation: str
) -> Answer:
    match outcome:
        case Failed():
            raise outcome.error
        case Ran():
            return with_headers(
                outcome.value, _headers(request, outcome.expires_at_s), request.shape
            )
        case Replayed():
            return _replay(outcome.record, request, settings, operation)
        case Refusal():
            return _refusal(outcome, request, settings)


def _replay(record: Record, request: HttpRequest, settings: Settings, operation: str) -> Answer:
    if record.response is None or record.response_version != RESPONSE_VERSION:
        # Never a second run: an answer that cannot be read is the store's failure, not the
        # client's.
        telemetry.store_unavailable(
            operation, StoreError("the stored answer cannot be read", transient=False)
        )
        return _refusal(
            Refusal(reason=Reason.STORE_UNAVAILABLE, retry_after_ms=1_000), request, settings
        )
    headers = {**_headers(request, record.expires_at_s), "Idempotent-Replayed": "true"}
    return with_headers(answer_from(record.response), headers, request.shape)


def _refusal(refusal: Refusal, request: HttpRequest, settings: Settings) -> Answer:
    answer = problem_answer(
        refusal.reason, base=settings.problem_base, retry_after_ms=refusal.retry_after_ms
    )
    return with_headers(answer, {}, request.shape)


def _headers(request: HttpRequest, expires_at_s: int | None) -> dict[str, str]:
    headers = {"Idempotency-Key": request.header_lines(HEADER)[0].strip()}
    if expires_at_s is not None:
        headers["Idempotency-Expires"] = formatdate(
            expires_at_s, usegmt=True
        )  # IMF-fixdate, RFC 9110 section 5.6.7
    return headers


def _settings(environment: Mapping[str, str], given: Mapping[str, int | str]) -> Settings:
    ours = tuple(
        sorted((name, value) for name, value in environment.items() if name.startswith("ONCEKEY_"))
    )
    return _checked_settings(ours, tuple(sorted(given.items())))


@lru_cache(maxsize=64)
def _checked_settings(
    environment: tuple[tuple[str, str], ...], given: tuple[tuple[str, int | str], ...]
) -> Settings:
    return settings_from(dict(environment), dict(given))


def _connection() -> tuple[str | None, ...]:
    return tuple(os.environ.get(name) for name in _CONNECTION)


@lru_cache(maxsize=16)
def _default_store(table: str, call_timeout_ms: int, connection: tuple[str | None, ...]) -> Store:  # noqa: ARG001 -- a part of the cache's key
    # One store, and so one client and its connections, for all handlers of a sandbox.
    return DynamoDBStore(table, call_timeout_ms=call_timeout_ms)
