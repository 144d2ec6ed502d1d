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
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from oncekey.effects import proofs
from oncekey.effects.disposition import is_proof
from oncekey.effects.raised import final_in
from oncekey.encoding.our_refusal import is_our_refusal
from oncekey.errors import ConfigurationError, NotExecuted
from oncekey.flow.commands import Raised
from oncekey.http.decorator import idempotent
from oncekey.misuse import explained
from oncekey.powertools.answer import (
    answer_of,
    answer_to_exception,
    cause_of,
    matched_route,
    response_from,
    response_of,
)

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

_OPTIONS = [option.name for option in fields(idempotent) if option.name != "operation"]
# The event that a middleware around this one protects. Its operation's name would not do: a route
# may send another request to the same route.
_protected_event: ContextVar[object] = ContextVar("oncekey_protected_event", default=None)


@explained("idempotent_route(tenant=jwt_claim('tenant_id'))")
@dataclass(frozen=True, kw_only=True)
class idempotent_route(idempotent):  # noqa: N801 -- written like the decorator
    """Make routes of a Powertools resolver safe to retry: every Idempotency-Key takes effect once.

    A middleware with the options and promises of `idempotent`, but for `operation`: that is the
    route which Powertools matched, such as `POST /payments/{payment_id}`, with the prefix of its
    router and without what `strip_prefixes` took away. It serves `APIGatewayHttpResolver`,
    `APIGatewayRestResolver`, `ALBResolver` and `LambdaFunctionUrlResolver`, by `resolve` and by
    `resolve_async`.

    A route's own one takes the place of one for all routes (`app.use`), with its own options. Of
    several that are left, the outermost protects, and the others let the request pass. Requests
    that match no route, and CORS preflights, always pass. A handler that calls the resolver must
    not be under `@idempotent` for the same operation: the key would be in use when the route asks
    for it, and every request be refused.

    Middlewares before this one run for every request, and what they change in a response is not
    stored. Those after it, and the route, run only where the operation does. The answers that
    `before_store`, `store_when` and `upgrade_response` see are proxy answers as the resolver sends
    them, before CORS headers, Cache-Control and compression.

    What Powertools answers for an exception (`BadRequestError`, or what an `exception_handler`
    takes) is an answer of the route, judged by its status like one that was returned: a 4xx is
    final and stored, a 5xx is not. `Final` and what proves that nothing happened (`NotExecuted`,
    `not_executed`) come first, whatever handler there is for them. What Powertools has no answer
    for is recorded and raised; so is an answer that does not fit the type that the route declares,
    because the 422 it becomes is not what the route has answered.

    Raises:
        ConfigurationError: an option is wrong; the message names every fault.
    """

    operation: str = field(init=False, default="(the matched route)")
    _bound: dict[str, HttpOperation] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        faults = (
            ["mode='queued' is for handlers under @idempotent: a worker cannot run a route alone"]
            if self.mode == "queued"
            else []
        )
        try:
            super().__post_init__()
        except ConfigurationError as error:
            faults = [*error.faults, *faults]
        if faults:
            raise ConfigurationError("idempotent_route(...)", faults)

    @property
    def __name__(self) -> str:
        """What Powertools calls this middleware when it is asked to debug."""
        return "idempotent_route"

    def __call__(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride] -- a middleware decorates nothing
        self, app: ApiGatewayResolver, next_middleware: Next
    ) -> Response[Any]:
        """Answer the request: by what is behind this under a lease, by replaying, or by refusing.

        Raises whatever an attempt raised that Powertools has no answer for; its record has been
        written first.
        """
        route = matched_route(app)
        event = app.current_event.raw_event
        if route is None or self._yields_to_another(route, event):
            return response_from(app, next_middleware(app))
        bound = self._bound_to(f"{route.method} {route.openapi_path}")
        attempt = _Attempt(bound, app, route, next_middleware)
        try:
            answer = bound.answer(attempt.run, event, app.lambda_context)
        except TypeError:
            if attempt.unsendable is not None:
                raise attempt.unsendable from None
            raise
        return response_of(answer) if isinstance(answer, dict) else answer

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


class _Attempt:
    """Runs what is behind the middleware, once, and says what it came to."""

    def __init__(
        self, bound: HttpOperation, app: ApiGatewayResolver, route: Route, next_middleware: Next
    ) -> None:
        self._is_not_executed = bound.policy.is_not_executed
        self._app = app
        self._route = route
        self._next_middleware = next_middleware
        # Why an answer that the route gave has no form in which it can be sent.
        self.unsendable: Exception | None = None

    def run(self, event: Any, _context: Any, operation: Operation) -> Any:
        """The answer of the route; its untouched response where it runs unprotected."""
        try:
            with _protecting(event if operation.protected else None):
                returned = self._next_middleware(self._app)
        except Exception as error:
            cause = cause_of(error)
            if final_in(cause) is not None or isinstance(cause, NotExecuted):
                raise cause from None
            if not operation.protected:
                raise
            if is_proof(Raised(cause), self._is_not_executed, proofs.is_spent):
                raise cause from None
            answer = answer_to_exception(self._app, self._route, error)
            if answer is None:
                raise
            if operation.records_effects:
                # An exception applies nothing, whatever answer there is for it.
                operation.discard()
            return answer
        response = response_from(self._app, returned)
        if not operation.protected:
            return response
        if is_our_refusal(response.body):
            # The route passes on what another operation answered, as a whole.
            return response.body
        return self._sendable(response)

    def _sendable(self, response: Response[Any]) -> Answer:
        try:
            return answer_of(self._app, response)
        except Exception as error:  # noqa: BLE001 -- the work is done: its record comes first
            self.unsendable = error
            # No answer of this form can be stored either, but it says that the route has ended.
            return {"statusCode": response.status_code, "body": error}


@contextmanager
def _protecting(event: object) -> Generator[None]:
    token = _protected_event.set(event)
    try:
        yield
    finally:
        _protected_event.reset(token)
