'''The middleware for FastAPI, Starlette and other ASGI apps with Starlette's routes.

Each route is an operation of its own, named by its method and template:

    from typing import Annotated

    from fastapi import Depends, FastAPI
    from mangum import Mangum
    from oncekey import Operation, current_operation, jwt_claim
    from oncekey.asgi import IdempotencyMiddleware

    app = FastAPI()
    app.add_middleware(IdempotencyMiddleware, tenant=jwt_claim("tenant_id"))

    @app.post("/payments/{payment_id}/refunds", status_code=201)
    def refund(payment_id: str, op: Annotated[Operation, Depends(current_operation)]):
        """The provider refuses a second refund under the same key."""
        return {"refund": provider.refund(payment_id, op.downstream_key("refund"))}

    lambda_handler = Mangum(app, lifespan="off")
'''

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from oncekey.asgi.answer import Collected, send_answer
from oncekey.asgi.invocation import ClientGoneError, invocation_of
from oncekey.asgi.routes import template_of
from oncekey.engine.execution import run_async
from oncekey.errors import ConfigurationError
from oncekey.http.decorator import idempotent

if TYPE_CHECKING:
    from oncekey.asgi.invocation import Invocation
    from oncekey.effects.operation import Operation
    from oncekey.http.answer import Answer
    from oncekey.http.operation import HttpOperation

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

_SENT = object()
# The operation's name stands for the options: the name that one request gets comes from its route.
_ANY_ROUTE = "(the matched route)"
# Notes in the scope that the request is protected. A mounted app may have a middleware of its own.
_PROTECTED = "oncekey.protected"


class IdempotencyMiddleware:
    """Make the routes of an ASGI app safe to retry: every Idempotency-Key takes effect once.

    It has the options and guarantees of `idempotent`, except `operation`, `mode="queued"` and
    `on_abandoned="complete"`. The operation is the route that Starlette or FastAPI matches, such as
    `POST /payments/{payment_id}`, with the prefixes of its routers and mounts. Requests that match
    no route, CORS preflights and websockets are passed on.

    `routes` changes the options of single routes by their names: `{"POST /refunds": {"effects":
    "recorded"}}`. None instead of options leaves a route unprotected.

    The tenant comes from the verified request context. Mangum gives it to the app with the event.
    Lambda Web Adapter sends it in a header. With `lambda_web_adapter=True` the header is believed,
    in Lambda only: say so only if every request comes through the adapter, which replaces such a
    header of a client. The member `asgi` of the context is the scope, for a middleware of your own
    that verifies the caller: `tenant=lambda context: context["asgi"]["user"].tenant_id`. Add that
    middleware after this one, so that it runs first. A middleware that compresses, or adds headers
    for one exchange, belongs there, too.

    The response is held back until the app has ended, with its background tasks and the code after
    `yield` in its dependencies. If one of them raises, the attempt has failed, even if the route
    has returned. The body of a `StreamingResponse` is collected and sent as a whole. A stream of
    events (`text/event-stream`) is refused with a `TypeError`.

    If the app has an answer for an exception (`HTTPException`, a validation error, an exception
    handler), the answer's status decides: a 4xx is final and stored, a 5xx is not. With recorded
    effects, nothing that was collected before the exception is applied, unless a
    `BaseHTTPMiddleware` that runs after this one hides the exception: then call `op.discard()`. A
    handler for `Exception` does not count. So `Final`, `NotExecuted` and the errors of
    `not_executed` work unless the app has a handler for just them.

    Raises:
        ConfigurationError: an option is wrong; the message names every fault.
    """

    def __init__(
        self,
        app: App,
        /,
        *,
        routes: Mapping[str, Mapping[str, Any] | None] | None = None,
        lambda_web_adapter: bool = False,
        **options: Any,
    ) -> None:
        self._app = app
        self._has_adapter = lambda_web_adapter
        self._options = options
        self._routes = dict(routes or {})
        self._bound: dict[str, HttpOperation] = {}
        # Faults are found when the middleware is made, not at the first request.
        _checked(_ANY_ROUTE, options)
        for name, own in self._routes.items():
            if own is not None:
                _checked(name, {**options, **own})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request: run the app under a lease, replay its answer, or refuse."""
        name = self._operation_of(scope) if scope["type"] == "http" else None
        if name is None or _PROTECTED in scope:
            await self._app(scope, receive, send)
            return
        bound = self._bound_to(name)
        try:
            invocation = await invocation_of(
                scope, receive, bound.clock, has_adapter=self._has_adapter
            )
        except ClientGoneError:
            return
        attempt = _Attempt(self._app, scope, invocation, send)
        flow = bound.call(invocation.event, invocation.context)
        answer = await run_async(flow, attempt.run, bound.find_store, bound.clock)
        if answer is _SENT:
            return
        if attempt.has_begun_to_send:
            raise RuntimeError("oncekey: the route ended with another answer than it began to send")
        await send_answer(answer, send)

    def _operation_of(self, scope: Scope) -> str | None:
        template = template_of(scope)
        name = None if template is None else f"{scope['method']} {template}"
        return None if name in self._routes and self._routes[name] is None else name

    def _bound_to(self, name: str) -> HttpOperation:
        if name not in self._bound:
            options = {**self._options, **(self._routes.get(name) or {})}
            self._bound[name] = _checked(name, options).bound()
        return self._bound[name]


class _Attempt:
    """Runs the app once, and makes the answer."""

    def __init__(self, app: App, scope: Scope, invocation: Invocation, send: Send) -> None:
        self._app = app
        self._scope = scope
        self._invocation = invocation
        self._send = send
        self.has_begun_to_send = False

    async def run(self, operation: Operation) -> Answer | object:
        """The app's answer, or `_SENT` if it runs unprotected and has sent its response itself."""
        if not operation.protected:
            await self._app(self._scope, self._invocation.receive, self._send_on)
            return _SENT
        collected = Collected()
        self._scope[_PROTECTED] = True
        await self._app(self._scope, self._invocation.receive, collected.send)
        if collected.is_for_exception and operation.records_effects:
            # After an exception, no collected write is applied, even if there is an answer.
            operation.discard()
        return collected.answer()

    async def _send_on(self, message: Message) -> None:
        self.has_begun_to_send = True
        await self._send(message)


def _checked(name: str, options: Mapping[str, Any]) -> idempotent:
    faults = [
        f"{option}={value!r} is for handlers under @idempotent: a worker cannot run a route alone"
        for option, value in (("mode", "queued"), ("on_abandoned", "complete"))
        if options.get(option) == value
    ]
    try:
        made = idempotent(operation=name, **options)
    except ConfigurationError as error:
        raise ConfigurationError("IdempotencyMiddleware(...)", [*error.faults, *faults]) from None
    if faults:
        raise ConfigurationError("IdempotencyMiddleware(...)", faults)
    return made
