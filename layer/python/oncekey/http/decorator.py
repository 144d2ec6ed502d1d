"""The public decorator of HTTP handlers.

It checks its options when it is applied, and does nothing else before the first event.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

from oncekey import options
from oncekey.clock import Clock, SystemClock
from oncekey.declared import second_operation
from oncekey.effects import handlers
from oncekey.engine.execution import run, run_async
from oncekey.errors import ConfigurationError
from oncekey.http.answer import Answer, storing_rule
from oncekey.http.fingerprint import LeftOut
from oncekey.http.key import DEFAULT_MIN_KEY_LENGTH
from oncekey.http.methods import methods_of
from oncekey.http.operation import HttpOperation
from oncekey.http.options import option_faults
from oncekey.http.policy import HttpPolicy
from oncekey.http.preset import IETF
from oncekey.misuse import explained
from oncekey.record.record import Effects
from oncekey.value import Value, field

if TYPE_CHECKING:
    from oncekey.effects.operation import Operation
    from oncekey.http.fingerprint import Selection
    from oncekey.http.preset import Preset
    from oncekey.quotas.quota import Quota
    from oncekey.store.store import Store
    from oncekey.telemetry.operation_event import OnEvent
    from oncekey.tenants import CallerSource

Event = TypeVar("Event")
Context = TypeVar("Context")
Result = TypeVar("Result")

_GONE_FOR = timedelta(hours=24)
NotExecutedRule = (
    type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]
)
Secrets = Sequence[bytes] | Callable[[], Sequence[bytes]]


@explained("@idempotent(operation='POST /payments', tenant=jwt_claim('tenant_id'))")
class idempotent(Value, kw_only=True):  # noqa: N801 -- written as a decorator
    """Make an HTTP handler safe to retry: every Idempotency-Key takes effect once.

    The handler runs only after its key is durably reserved; when it returns a final answer (2xx,
    3xx, and 4xx but for 408, 425 and 429) that answer is stored and every repeat gets it, its body
    byte for byte, with the headers of the answer (see `replay_headers`). Repeats of a running
    request, another request under the same key, and requests without a key are answered without
    running anything. If the process is killed, or the handler raises, a repeat is told that the
    outcome is unknown, until somebody settles it, and nothing runs twice, unless `effects` says
    more. If the store does not answer, nothing runs at all.

    Decorating opens no connection and needs no environment. The handler is called with the event,
    the context, and, if it takes a third argument, the `Operation`. An `async def` handler stays
    one; its event loop is free while the store is called.

    Args:
        operation: the name that the key is bound to, by convention method and route template, such
            as `POST /payments`. Renaming it forgets all its keys. Two handlers of one name are
            refused: each would be given the other's answers.
        tenant: whose key it is, from the verified request context only. `single_tenant()` if there
            is only one. Where it names nobody the request is refused (403), with a key or without.
        principal: narrows the scope of a key within a tenant.
        effects: what the handler does to the outside world. With `unrecorded` what is interrupted
            is unknown; with `repeatable` running again is harmless, and what is interrupted runs
            again; with `recorded` every effect goes through the operation (`op.transaction`,
            `op.step`, `op.outbox`), and what is interrupted resumes after its finished steps.
        preset: how refusals are worded and replays marked, `IETF` or `STRIPE`.
        fingerprint: what part of the request must be the same in a repeat, in place of the whole
            body. This is a callable from the request to a JSON value, or a pydantic model, of which
            the members of the body that it reads count as they were sent. A body that does not fit
            the model, or that the callable is at a loss with, is refused (400) before anything is
            written.
        ignore_query: members of the query that a repeat may have otherwise, or not at all, such as
            the signature of a signed URL: `("X-Amz-*",)`. A trailing `*` stands for any ending.
        base_path: what the path begins with where it comes by another way, such as a custom domain
            with a base path: `/v1`. A stage that the event names is left out by itself.
        fingerprint_secrets: make the fingerprint an HMAC, so that the table says nothing of what
            was asked. The newest comes first; the others are accepted. By default the words of
            ONCEKEY_FINGERPRINT_SECRETS, or of the Secrets Manager secret that
            ONCEKEY_FINGERPRINT_SECRETS_ARN names.
        methods: which methods need a key. GET, HEAD, OPTIONS and the method in the operation's name
            (`PUT /things/{id}`) pass through without one, if their tenant is known. Any other is
            refused (405), because it would run unprotected: list it here, or give it a handler of
            its own. A name that is no route has no method of its own.
        required: False lets requests without a key pass unprotected, once their tenant is known,
            and logs them.
        min_key_length: shorter keys are refused, because guessable ones would leak answers.
        store_raw_key: False keeps key and principal out of the table, where they may be personal
            data.
        not_executed: exception types, or a predicate, that prove that nothing happened, as raising
            `NotExecuted` does. What is no `Exception` is raised on, as it came; an exit or a
            cancellation proves it only where its own type is named. Of an exception group every
            member must prove it.
        store_when: which answers are stored. `final` (2xx, 3xx, 4xx but for 408, 425, 429), `begun`
            (any, and an exception as a 500), or a callable that decides. The preset's own choice by
            default.
        before_store: changes what is stored, to keep secrets out of the table. The first caller
            gets the answer as it was, a replay what was stored.
        replay_headers: which headers a replay repeats, where the rule does not fit: `{"Set-Cookie":
            True, "X-Cost": False}`. By the rule it repeats those of the answer and not those of the
            first exchange (`Date`, ids of requests and traces, rate limits, `Access-Control-*`,
            cookies, `WWW-Authenticate`, hop-by-hop); these are not stored either.
        response_version: the version of the answers that this release gives.
        upgrade_response: turns an answer stored by another version into one of this version, on
            replay; it gets the answer and its version.
        in_progress: what a repeat of a running request gets. `conflict` (409 at once, the default),
            `accepted` (202), or `wait` for the first answer.
        wait_up_to: 10 s by default.
        retention: how long answers are kept, 24 h by default. A later repeat is a new operation.
        after_expiry: `run` (the default), or `gone`, which answers 410 to a repeat for `gone_for`
            (24 h by default) after the retention.
        mode: `sync`, or `queued` for long work: the request is accepted (202), and a worker runs
            the handler; see `oncekey.queued`.
        start_within: how long an accepted request may wait for a worker, 1 h by default; then its
            answer is a 408, which is final.
        on_abandoned: what becomes of half-done work whose client never comes back, with `recorded`
            effects. `wait` for the client (the default), or `complete`: the request is kept in the
            record, without credentials, and the reconciler has a worker finish it; see
            `oncekey.queued`. A request that takes more than 16 KB compressed waits all the same.
            Half done is what has a finished step or commit: put a commit before a first step that
            is idempotent, which leaves nothing on record where it is interrupted.
        max_lease: a shorter lease than the Lambda's own deadline, with `repeatable` effects only.
        reconcile_grace: how long after a dead attempt's lease its calls may still arrive somewhere,
            60 s by default.
        quota: how many keys a tenant may use; see `oncekey.Quota`.
        on_event: is told of replays, conflicts, takeovers and what is unknown; see
            `oncekey.OperationEvent`.
        local_cache: how many completed answers a sandbox remembers, none by default. A repeat that
            meets its answer there is answered without a request to the table, for five minutes at
            most, whatever is done to the record meanwhile.
        problem_base: what a problem's `type` begins with, such as your documentation's address.
        store: where the records are, by default the DynamoDB table that ONCEKEY_TABLE names.
        clock: the source of time and randomness, for tests.

    Raises:
        ConfigurationError: an option is wrong; the message names every fault.
    """

    operation: str
    tenant: CallerSource = field(repr=False)
    principal: CallerSource | None = field(default=None, repr=False)
    effects: str = "unrecorded"
    preset: Preset = IETF
    fingerprint: Selection | None = field(default=None, repr=False)
    ignore_query: Collection[str] = ()
    base_path: str = ""
    fingerprint_secrets: Secrets | None = field(default=None, repr=False)
    methods: Collection[str] = ("POST", "PATCH")
    required: bool = True
    min_key_length: int = DEFAULT_MIN_KEY_LENGTH
    store_raw_key: bool = True
    not_executed: NotExecutedRule = field(default=(), repr=False)
    store_when: str | Callable[[Answer], bool] | None = field(default=None, repr=False)
    before_store: Callable[[Answer], Answer] | None = field(default=None, repr=False)
    replay_headers: Mapping[str, bool] | None = None
    response_version: int = 1
    upgrade_response: Callable[[Answer, int], Answer] | None = field(default=None, repr=False)
    in_progress: str | None = None
    wait_up_to: timedelta | None = None
    retention: timedelta | None = None
    after_expiry: str = "run"
    gone_for: timedelta = _GONE_FOR
    mode: str = "sync"
    start_within: timedelta | None = None
    on_abandoned: str = "wait"
    max_lease: timedelta | None = None
    reconcile_grace: timedelta | None = None
    quota: Quota | None = None
    on_event: OnEvent | None = field(default=None, repr=False)
    local_cache: int = 0
    problem_base: str | None = None
    store: Store | None = field(default=None, repr=False)
    clock: Clock | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        faults = option_faults(self, self._settings())
        if faults:
            raise ConfigurationError(f"@idempotent(operation={self.operation!r})", faults)

    @overload
    def __call__(
        self, handler: Callable[[Event, Context, Operation], Result], /
    ) -> Callable[[Event, Context], Result]: ...
    @overload
    def __call__(
        self, handler: Callable[[Event, Context], Result], /
    ) -> Callable[[Event, Context], Result]: ...
    def __call__(self, handler: Callable[..., Any], /) -> Callable[[Any, Any], Any]:
        """Protect `handler`, which keeps its types; the operation, if it takes one, is supplied."""
        self._refuse(handlers.handler_faults(handler))
        bound = self.bound()
        takes_operation = handlers.takes_operation(handler)

        def call(event: Any, context: Any, operation: Operation) -> Any:
            if takes_operation:
                return handler(event, context, operation)
            return handler(event, context)

        @functools.wraps(handler)
        def protected(event: Any, context: Any) -> Any:
            handle = partial(call, event, context)
            return run(bound.call(event, context), handle, bound.find_store, bound.clock)

        @functools.wraps(handler)
        async def protected_async(event: Any, context: Any) -> Any:
            handle = partial(call, event, context)
            flow = bound.call(event, context)
            return await run_async(flow, handle, bound.find_store, bound.clock)

        wrapper = protected_async if handlers.is_coroutine_function(handler) else protected
        # Callers see two arguments: the third is ours to give.
        del wrapper.__wrapped__
        self._refuse(second_operation(self.operation, handler, wrapper, self.store))
        if self.mode == "queued" or self.on_abandoned == "complete":
            from oncekey.http.job import HttpJob, mark

            mark(wrapper, HttpJob(bound, call, is_coroutine=wrapper is protected_async))
        return wrapper

    def _refuse(self, faults: list[str]) -> None:
        if faults:
            raise ConfigurationError(f"@idempotent(operation={self.operation!r})", faults)

    def bound(self) -> HttpOperation:
        """The operation that these options describe."""
        when = self.store_when or self.preset.store_when
        policy = HttpPolicy(
            name=self.operation,
            tenant=self.tenant,
            principal=self.principal,
            effects=Effects(self.effects),
            select=self.fingerprint,
            left_out=LeftOut(query=frozenset(self.ignore_query), base_path=self.base_path),
            secrets=options.secrets_source(self.fingerprint_secrets),
            methods=methods_of(self.operation, frozenset(m.upper() for m in self.methods)),
            required=self.required,
            min_key_length=self.min_key_length,
            stores_raw_key=self.store_raw_key,
            is_not_executed=options.predicate(self.operation, self.not_executed),
            preset=self.preset,
            is_final=storing_rule(when),
            stores_failures=when == "begun",
            response_version=self.response_version,
            upgrade_response=self.upgrade_response,
            before_store=self.before_store,
            replay_headers={n.lower(): yes for n, yes in (self.replay_headers or {}).items()},
            is_queued=self.mode == "queued",
            completes_abandoned=self.on_abandoned == "complete",
            quota=self.quota,
            on_event=self.on_event,
            local_cache=self.local_cache,
            given_settings=self._settings(),
        )
        return HttpOperation(policy=policy, store=self.store, clock=self.clock or SystemClock())

    def _settings(self) -> dict[str, int | str]:
        return options.settings_given(
            {
                "wait_up_to_ms": self.wait_up_to,
                "retention_s": self.retention,
                "gone_for_s": self.gone_for if self.after_expiry == "gone" else None,
                "start_within_ms": self.start_within,
                "max_lease_ms": self.max_lease,
                "reconcile_grace_ms": self.reconcile_grace,
            },
            {"in_progress": self.in_progress, "problem_base": self.problem_base},
        )
