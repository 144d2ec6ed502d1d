"""The public decorator of HTTP handlers.

Decorating only checks the options. Everything else happens when the first event arrives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

from oncekey import options
from oncekey.declared import second_operation
from oncekey.effects import handlers
from oncekey.engine.execution import run, run_async
from oncekey.errors import ConfigurationError
from oncekey.http.answer import Answer, storing_rule
from oncekey.http.fingerprint import LeftOut
from oncekey.http.key import DEFAULT_MIN_KEY_LENGTH
from oncekey.http.methods import methods_of
from oncekey.http.operation import HttpOperation, mark_protected
from oncekey.http.options import GONE_FOR, option_faults
from oncekey.http.policy import HttpPolicy
from oncekey.http.preset import IETF
from oncekey.misuse import explained
from oncekey.record.record import Effects
from oncekey.value import Value, field

if TYPE_CHECKING:
    from datetime import timedelta

    from oncekey.clock import Clock
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

NotExecutedRule = (
    type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]
)
Secrets = Sequence[bytes] | Callable[[], Sequence[bytes]]


@explained("@idempotent(operation='POST /payments', tenant=jwt_claim('tenant_id'))")
class idempotent(Value, kw_only=True):  # noqa: N801 -- written as a decorator
    """Make an HTTP handler safe to retry: every Idempotency-Key takes effect once.

    - The handler runs only after its key is durably reserved. If the store does not answer, the
      handler does not run.
    - A final answer is stored: 2xx, 3xx, and 4xx except 408, 425 and 429. Every repeat gets the
      same body, byte for byte, and the headers that `replay_headers` describes.
    - The handler does not run for a repeat of a running request, for another request with the same
      key, or for a request without a key (but see `methods` and `required`). The answer says why.
    - If the process is killed or the handler raises, the outcome is unknown. Repeats are told so
      until somebody settles it, and nothing runs twice. `effects` can change this.

    Decorating opens no connection and needs no environment variables. The handler is called with
    the event, the context, and, if it takes a third argument, the `Operation`. An `async def`
    handler stays a coroutine function; its event loop is free during calls to the store.

    Args:
        operation: the name that the key is bound to. By convention this is the method and the route
            template, such as `POST /payments`. If you rename it, all its keys are forgotten. Two
            handlers with the same name are refused, because each would replay the other's answers.
        tenant: finds the owner of the key, from the verified request context only. Use
            `single_tenant()` if there is only one. If it finds no tenant, the request is refused
            (403), with or without a key.
        principal: finds the user within the tenant. Keys of different users are then separate.
        effects: what the handler does to the outside world. `unrecorded`: the outcome of an
            interrupted attempt is unknown. `repeatable`: running again is harmless, so an
            interrupted attempt runs again. `recorded`: every effect goes through the operation
            (`op.transaction`, `op.step`, `op.outbox`), and a retry resumes after the finished
            steps.
        preset: the wording of refusals and the headers of replays, `IETF` or `STRIPE`.
        fingerprint: selects what must be the same in a repeat, instead of the whole body. Pass a
            callable that takes the request and returns a JSON value, or a pydantic model. With a
            model, only the members of the body that it reads count, as they were sent. If the body
            does not fit the model, or the callable raises a ValueError, LookupError, TypeError or
            the like on it, the request is refused (400) before anything is written. Any other
            exception is raised.
        ignore_query: names of query parameters that a repeat may change or leave out, such as the
            signature of a signed URL: `("X-Amz-*",)`. A trailing `*` matches any ending.
        base_path: a prefix that is removed from a path before it is compared, such as the base path
            of a custom domain: `/v1`. Use it if the same resource is reached with and without the
            prefix. A stage that the event names is removed without this option.
        fingerprint_secrets: makes the fingerprint an HMAC, so that the table does not reveal the
            request. Put the newest secret first: it is used for new records. The others are still
            accepted. By default the secrets are the words in ONCEKEY_FINGERPRINT_SECRETS, or in the
            Secrets Manager secret that ONCEKEY_FINGERPRINT_SECRETS_ARN names.
        methods: the methods that need a key. GET, HEAD, OPTIONS and the method in the operation's
            name (`PUT /things/{id}`) pass through without one, if their tenant is known. All other
            methods are refused (405), because they would run unprotected. List such a method here,
            or give it a handler of its own. A name that is not a route has no method.
        required: if False, requests without a key run unprotected and are logged. Their tenant must
            still be known.
        min_key_length: the shortest accepted key, in characters. Shorter keys are refused, because
            a key that can be guessed would leak answers.
        store_raw_key: if False, the table does not contain the key and the principal, which may be
            personal data.
        not_executed: exception types, or a predicate, that prove that nothing happened, as
            `NotExecuted` does. An exit or a cancellation, which is not an `Exception`, is always
            raised again unchanged, and is a proof only if its own type is listed. In an exception
            group, every member must be a proof.
        store_when: which answers are stored. `final`: 2xx, 3xx, and 4xx except 408, 425 and 429.
            `begun`: every answer, and an exception as a 500. A callable decides for each answer. By
            default the preset decides.
        before_store: changes the answer that is stored, to keep secrets out of the table. The first
            caller gets the original answer; a replay gets the stored one.
        replay_headers: overrides which headers a replay repeats: `{"Set-Cookie": True, "X-Cost":
            False}`. By default it repeats all except those of the first exchange: `Date`, request
            and trace ids, rate limits, `Access-Control-*`, cookies, `WWW-Authenticate`, and
            hop-by-hop headers. Headers that are not repeated are not stored either.
        response_version: the version of the answers that this release gives.
        upgrade_response: converts a stored answer of another version to this version, on replay. It
            is called with the answer and its version.
        in_progress: what a repeat of a running request gets. `conflict` (409 at once, the default),
            `accepted` (202), or `wait` for the first answer.
        wait_up_to: 10 s by default. If `wait` gets no answer in this time, the repeat gets 409.
        retention: how long answers are kept, 24 h by default. A later repeat is a new operation.
        after_expiry: `run` (the default), or `gone`. With `gone`, a repeat after the retention gets
            410 for `gone_for` (24 h by default).
        mode: `sync`, or `queued` for long work. A queued request is accepted (202), and a worker
            runs the handler; see `oncekey.queued`.
        start_within: how long an accepted request may wait for a worker, 1 h by default. After that
            its answer is a 408, which is final.
        on_abandoned: what happens to half-done work, with `recorded` effects, if the client never
            retries. `wait` for the client (the default), or `complete`: the record keeps the
            request, without credentials, and the reconciler hands it to a worker, which finishes
            it; see `oncekey.queued`. A request of more than 16 KB when compressed waits anyway.
            Work is half done once it has completed a step or a commit. An idempotent first step
            leaves nothing on record if it is interrupted, so put a commit before it.
        max_lease: a lease shorter than the deadline of the Lambda invocation, with `repeatable`
            effects only.
        reconcile_grace: how long after the lease of a dead attempt its calls may still arrive at
            other services, 60 s by default.
        quota: how many keys a tenant may use; see `oncekey.Quota`.
        on_event: is called on replays, conflicts, takeovers and unknown outcomes; see
            `oncekey.OperationEvent`.
        local_cache: how many completed answers each sandbox keeps in memory, none by default. A
            repeat found there is answered without a request to the table, unless its answer is
            stored outside its record. A cached answer is used for five minutes at most, even if the
            record changes in that time.
        problem_base: the prefix of a problem's `type`, such as the address of your documentation.
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
    gone_for: timedelta = GONE_FOR
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
        """Return the protected handler, with the same types except for the supplied operation."""
        self._refuse(handlers.handler_faults(handler))
        bound = self.bound()
        takes_operation = handlers.takes_operation(handler)
        keyword = handlers.operation_keyword(handler) if takes_operation else None

        def call(event: Any, context: Any, operation: Operation) -> Any:
            if keyword is not None:
                return handler(event, context, **{keyword: operation})
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
        # Callers see two arguments, because the wrapper supplies the third.
        del wrapper.__wrapped__
        mark_protected(wrapper, bound)
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
        return HttpOperation(policy=policy, store=self.store, clock=self.clock)

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
