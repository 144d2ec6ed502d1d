'''The middleware for the event handlers of Powertools for AWS Lambda (the `powertools` extra).

Each route is an operation of its own, named by its method and template:

    from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
    from oncekey import current_operation, jwt_claim
    from oncekey.powertools import idempotent_route

    app = APIGatewayHttpResolver()
    app.use(middlewares=[idempotent_route(tenant=jwt_claim("tenant_id"))])

    @app.post("/payments/<payment_id>/refunds")  # "POST /payments/{payment_id}/refunds"
    def refund(payment_id: str):
        """The provider refuses a second refund under the same key."""
        key = current_operation().downstream_key("refund")
        return {"payment_id": payment_id, "refund": provider.refund(payment_id, key)}, 201

    def lambda_handler(event, context):
        return app.resolve(event, context)
'''

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from typing import TYPE_CHECKING, Any

from oncekey.effects.disposition import is_proof
from oncekey.effects.handlers import (
    is_awaitable,
    is_coroutine_function,
    is_generator_function,
    never_awaited,
)
from oncekey.effects.raised import final_in
from oncekey.effects.running import is_spent
from oncekey.engine.execution import run
from oncekey.errors import ConfigurationError, NotExecuted
from oncekey.flow.commands import Raised
from oncekey.http.decorator import idempotent
from oncekey.http.options import route_faults
from oncekey.misuse import explained
from oncekey.powertools.answer import (
    answer_of,
    answer_to_exception,
    cause_of,
    matched_route,
    response_from,
    response_of,
)
from oncekey.problem import is_our_refusal
from oncekey.value import field

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from aws_lambda_powertools.event_handler.api_gateway import (
        ApiGatewayResolver,
        Response,
        Route,
    )

    from oncekey.effects.operation import Operation
    from oncekey.http.answer import Answer
    from oncekey.http.operation import HttpOperation

    Next = Callable[[ApiGatewayResolver], Any]

_OPTIONS = [name for name in idempotent.fields_ if name != "operation"]
# The event that an outer middleware protects. The operation's name cannot identify it, because a
# route may send another request to the same route.
_protected_event: ContextVar[object] = ContextVar("oncekey_protected_event", default=None)


@explained("idempotent_route(tenant=jwt_claim('tenant_id'))")
class idempotent_route(idempotent, kw_only=True):  # noqa: N801 -- written like the decorator
    """Make routes of a Powertools resolver safe to retry: every Idempotency-Key takes effect once.

    The middleware has the options and guarantees of `idempotent`, except `operation`. The operation
    is the route that Powertools matched, such as `POST /payments/{payment_id}`, with the prefix of
    its router and without the prefix that `strip_prefixes` removed. It works in
    `APIGatewayHttpResolver`, `APIGatewayRestResolver`, `ALBResolver` and
    `LambdaFunctionUrlResolver`, with `resolve` and `resolve_async`.

    A middleware of one route replaces one for all routes (`app.use`), with its own options. If
    several remain, the outermost protects the request, and the others pass it on. Requests that
    match no route, and CORS preflights, are always passed on. A handler that calls the resolver
    must not be decorated with `@idempotent` for the same operation. Its key would already be in use
    for the route, and every request would be refused.

    Middlewares before this one run for every request, and their changes to a response are not
    stored. Middlewares after it, and the route, run only if the operation runs. `before_store`,
    `store_when` and `upgrade_response` get proxy answers as the resolver sends them, before CORS
    headers, Cache-Control and compression.

    If Powertools has an answer for an exception (`BadRequestError`, or an `exception_handler`), it
    counts as the route's answer. Its status decides: a 4xx is final and stored, a 5xx is not.
    `Final` and the proofs that nothing happened (`NotExecuted`, `not_executed`) are handled before
    any `exception_handler`. Any other exception is recorded and raised. So is an answer that does
    not fit the route's declared type, because Powertools' 422 is not the route's answer.

    Raises:
        ConfigurationError: an option is wrong; the message names every fault.
    """

    operation: str = field(init=False, default="(the matched route)")
    _bound: dict[str, HttpOperation] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        faults = route_faults(self.mode, self.on_abandoned)
        try:
            super().__post_init__()
        except ConfigurationError as error:
            faults = [*error.faults, *faults]
        if faults:
            raise ConfigurationError("idempotent_route(...)", faults)

    @property
    def __name__(self) -> str:
        """The name of this middleware in Powertools' debug output."""
        return "idempotent_route"

    def __call__(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride] -- a middleware decorates nothing
        self, app: ApiGatewayResolver, next_middleware: Next
    ) -> Response[Any]:
        """Answer the request: run the route under a lease, replay its answer, or refuse.

        Raises an attempt's exception if Powertools has no answer for it. The record has then been
        written.
        """
        route = matched_route(app)
        event = app.current_event.raw_event
        if route is None or self._yields_to_another(route, event):
            return response_from(app, next_middleware(app))
        name = f"{route.method} {route.openapi_path}"
        faults = _route_faults(route, next_middleware)
        if faults:
            raise ConfigurationError(f"idempotent_route of {name}", faults)
        bound = self._bound_to(name)
        attempt = _Attempt(bound, app, route, next_middleware)
        try:
            flow = bound.call(event, app.lambda_context)
            answer = run(flow, attempt.run, bound.find_store, bound.clock)
        except TypeError:
            if attempt.unsendable is not None:
                raise attempt.unsendable from None
            raise
        return response_of(answer) if isinstance(answer, dict) else answer.response

    def _yields_to_another(self, route: Route, event: object) -> bool:
        own = [other for other in route.middlewares if isinstance(other, idempotent_route)]
        if own and not any(other is self for other in own):
            return True
        return _protected_event.get() is event

    def _bound_to(self, name: str) -> HttpOperation:
        if name not in self._bound:
            options: dict[str, Any] = {option: getattr(self, option) for option in _OPTIONS}
            self._bound[name] = idempotent(operation=name, **options).bound()
        return self._bound[name]


def _route_faults(route: Route, next_middleware: Next) -> list[str]:
    if is_generator_function(route.func):
        return ["a generator has no answer to store: return one"]
    if is_coroutine_function(route.func) and _runs_unawaited(next_middleware):
        fault = "the route is an async function, and app.resolve does not await it"
        return [f"{fault}: call app.resolve_async, or write the route as a plain function"]
    return []


def _runs_unawaited(next_middleware: Next) -> bool:
    from aws_lambda_powertools.event_handler.api_gateway import MiddlewareFrame

    # `resolve` builds its middlewares of these, and `resolve_async` does not.
    return isinstance(next_middleware, MiddlewareFrame)


class _Attempt:
    """Runs the middlewares and the route behind this one, once, and makes the answer."""

    def __init__(
        self, bound: HttpOperation, app: ApiGatewayResolver, route: Route, next_middleware: Next
    ) -> None:
        self._is_not_executed = bound.policy.is_not_executed
        self._event = app.current_event.raw_event
        self._app = app
        self._route = route
        self._next_middleware = next_middleware
        # The error that the resolver raised when it serialised the route's answer.
        self.unsendable: Exception | None = None

    def run(self, operation: Operation) -> Any:
        """The answer of the route, or its response on its way if it runs unprotected."""
        try:
            with _protecting(self._event if operation.protected else None):
                returned = self._next_middleware(self._app)
        except Exception as error:
            cause = cause_of(error)
            if final_in(cause) is not None or isinstance(cause, NotExecuted):
                raise cause from None
            if not operation.protected:
                raise
            if is_proof(Raised(cause), self._is_not_executed, is_spent):
                raise cause from None
            answer = answer_to_exception(self._app, self._route, error)
            if answer is None:
                raise
            if operation.records_effects:
                # After an exception, no collected write is applied, even if there is an answer.
                operation.discard()
            return answer
        response = response_from(self._app, returned)
        if is_our_refusal(response.body):
            # The route returned the whole answer of another operation.
            return response.body
        if is_awaitable(response.body):
            if operation.protected:
                # Nobody awaits it, so the route has not ended. The engine tells its author.
                return response.body
            raise never_awaited(response.body)
        if not operation.protected:
            return _PassedOn(self._app, response)
        return self._sendable(response)

    def _sendable(self, response: Response[Any]) -> Answer:
        try:
            return answer_of(self._app, response)
        except Exception as error:  # noqa: BLE001 -- the work is done, so the record is written first
            self.unsendable = error
            # This answer cannot be stored either, but it records that the route has ended.
            return {"statusCode": response.status_code, "body": error}


class _PassedOn:
    """The response of a route that runs without a record, on its way to the resolver."""

    def __init__(self, app: ApiGatewayResolver, response: Response[Any]) -> None:
        self.response = response
        self.status_code = response.status_code
        self._app = app

    @property
    def as_answer(self) -> Answer:
        """What the resolver sends for it, as an author's rule reads it.

        Raises:
            Exception: any exception of the resolver's serializer.
        """
        # The resolver builds the response itself, and changes its body as it does.
        return answer_of(self._app, copy(self.response))


@contextmanager
def _protecting(event: object) -> Generator[None]:
    token = _protected_event.set(event)
    try:
        yield
    finally:
        _protected_event.reset(token)
