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

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from difflib import get_close_matches
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from oncekey.asgi.answer import Collected, PassedOn, send_answer
from oncekey.asgi.invocation import ClientGoneError, invocation_of, staying
from oncekey.asgi.routes import Place, without_convertors
from oncekey.asgi.unprotected import UnprotectedScope
from oncekey.engine.execution import run_async
from oncekey.errors import ConfigurationError
from oncekey.http.decorator import idempotent
from oncekey.http.options import route_faults

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

_NO_OPTIONS: Mapping[str, Any] = {}
# Times that one choice needs, and any other has no use for.
_TIMES = {"gone_for": ("after_expiry", "gone"), "wait_up_to": ("in_progress", "wait")}
# Of a method and a path, or `//host/path` for a route for a host name.
_NAME = re.compile(r"[A-Z]+ /\S*")
# Used only to check the options. Each request is named by its route.
_ANY_ROUTE = "(the matched route)"
# Notes in the scope that the request is protected. A mounted app may have a middleware of its own.
_PROTECTED = "oncekey.protected"
# ASGI's extensions for responses: https://asgi.readthedocs.io/en/latest/extensions.html
_OF_A_RESPONSE = "http.response."


class IdempotencyMiddleware:
    """Make the routes of an ASGI app safe to retry: every Idempotency-Key takes effect once.

    It has the options and guarantees of `idempotent`, except `operation`, `mode="queued"` and
    `on_abandoned="complete"`. The operation is the route that Starlette or FastAPI matches, such as
    `POST /payments/{payment_id}`, with the prefixes of its routers and mounts, and `//host`
    before the path under a route for a host name. CORS preflights and websockets are passed on. So
    are requests that match no route, which may only get an error or a redirect.

    A middleware that changes the path belongs after this one, and runs first. If it runs inside,
    and takes a request that was passed on to a route that needs a key, a `ConfigurationError` is
    raised before the route runs. It is raised after the route has succeeded if the middleware
    hands on a copy of the scope, or answers itself. A copy for a route that `routes` leaves
    unprotected is not noticed.

    `routes` changes the options of single routes: `{"POST /refunds": {"effects": "recorded"}}`.
    None instead of options leaves a route unprotected. The paths are those of the app that the
    middleware is on, without the prefixes of mounts around it. A key that is no route is a
    `ConfigurationError` at the first request.

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
    events (`text/event-stream`) is refused with a `TypeError`. The app does not hear that its
    client has gone: the whole answer is stored for the retry.

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
        # By this name of Starlette's, other middlewares' wrapped apps are found.
        self.app = app
        faults = _own_faults(routes, lambda_web_adapter, options)
        if faults:
            raise ConfigurationError("IdempotencyMiddleware(...)", faults)
        self._has_adapter = lambda_web_adapter
        self._options = options
        self._routes = {without_convertors(name): own for name, own in (routes or {}).items()}
        self._bound: dict[str, HttpOperation] = {}
        self._has_known_routes = not self._routes
        # Faults are found when the middleware is made, not at the first request.
        self._methods = {method.upper() for method in _checked(_ANY_ROUTE, options).methods}
        malformed = [
            f"routes: {name!r} is not a method and a path, such as 'POST /payments'"
            for name in self._routes
            if not _NAME.fullmatch(name)
        ]
        if malformed:
            raise ConfigurationError("IdempotencyMiddleware(...)", malformed)
        for name, own in self._routes.items():
            if own is not None:
                _checked(name, _merged(options, own))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request: run the app under a lease, replay its answer, or refuse."""
        if scope["type"] != "http" or _PROTECTED in scope:
            await self.app(scope, receive, send)
            return
        place = Place(self.app, scope)
        self._know(place)
        method, template = scope["method"], place.template()
        key = f"{method} {template}"
        if template is None or self._is_left_out(key):
            may_succeed = template is not None or method not in self._methods
            await self._pass_on(place, scope, receive, send, may_succeed=may_succeed)
            return
        bound = self._bound_to(f"{method} {place.full(template)}", key)
        try:
            invocation = await invocation_of(
                scope, receive, bound.clock, has_adapter=self._has_adapter
            )
        except ClientGoneError:
            return
        attempt = _Attempt(self.app, scope, invocation, send)
        flow = bound.call(invocation.event, invocation.context)
        answer = await run_async(flow, attempt.run, bound.find_store, bound.clock)
        if isinstance(answer, PassedOn):
            await answer.release()
            return
        if attempt.has_begun_to_send:
            raise RuntimeError("oncekey: the route ended with another answer than it began to send")
        await send_answer(answer, send)

    def _is_left_out(self, key: str) -> bool:
        return self._routes.get(key, _NO_OPTIONS) is None

    async def _pass_on(
        self, place: Place, scope: Scope, receive: Receive, send: Send, *, may_succeed: bool
    ) -> None:
        """Run a request without a key. It may not run a route that needs one."""
        request = f"{scope['method']} {scope['path']}"

        def check(now: Scope) -> None:
            method, template = now["method"], place.template_of(now)
            is_open = template is None or self._is_left_out(f"{method} {template}")
            if method in self._methods and not is_open:
                raise _misplaced(f"{request} would run {method} {template} unprotected")

        inner = UnprotectedScope(scope, check)

        async def passed_on(message: Message) -> None:
            # A middleware outside reads there which route was run.
            scope.update(inner)
            is_start = message["type"] == "http.response.start"
            if is_start and not may_succeed and _is_success(message["status"]):
                raise _misplaced(f"{request} has run unprotected: it matches no route here")
            await send(message)

        try:
            await self.app(inner, receive, passed_on)
        finally:
            scope.update(inner)

    def _know(self, place: Place) -> None:
        """Find keys of `routes` that are no route. The app has all its routes by a request."""
        if self._has_known_routes:
            return
        known = dict[str, None]()
        open_to_all = set[str]()
        for template, methods in place.names():
            known |= dict.fromkeys(f"{method} {template}" for method in methods or self._methods)
            if methods is None:
                open_to_all.add(template)
        faults = [
            f"routes: no route is {name!r}; near: {', '.join(_near(name, known)) or 'none'}"
            for name in self._routes
            if name not in known and name.partition(" ")[2] not in open_to_all
        ]
        if faults:
            raise ConfigurationError("IdempotencyMiddleware(...)", faults)
        self._has_known_routes = True

    def _bound_to(self, name: str, key: str) -> HttpOperation:
        if name not in self._bound:
            options = _merged(self._options, self._routes.get(key) or {})
            self._bound[name] = _checked(name, options).bound()
        return self._bound[name]


class _Attempt:
    """Runs the app once, and makes the answer."""

    def __init__(self, app: App, scope: Scope, invocation: Invocation, send: Send) -> None:
        self._app = app
        self._scope = scope
        self._invocation = invocation
        self._send = send
        self._passed_on: PassedOn | None = None

    async def run(self, operation: Operation) -> Answer | PassedOn:
        """The app's answer, or its response on its way to the server if it runs unprotected."""
        if not operation.protected:
            return await self._run_unprotected(operation)
        collected = Collected()
        self._scope[_PROTECTED] = True
        # What a server would do itself, such as sending a file, an early hint or trailers, is in no
        # stored body. An app uses it only where it is offered.
        offered = self._scope.get("extensions") or {}
        self._scope["extensions"] = {
            name: value for name, value in offered.items() if not name.startswith(_OF_A_RESPONSE)
        }
        await self._app(self._scope, staying(self._invocation.receive), collected.send)
        if collected.is_for_exception and operation.records_effects:
            # After an exception, no collected write is applied, even if there is an answer.
            operation.discard()
        return collected.answer()

    @property
    def has_begun_to_send(self) -> bool:
        """Whether the client has got a part of a response."""
        return self._passed_on is not None and self._passed_on.has_begun

    async def _run_unprotected(self, operation: Operation) -> PassedOn:
        response = self._passed_on = PassedOn(self._send, lambda: operation.has_collected)
        await self._app(self._scope, self._invocation.receive, response.send)
        has_failed = response.is_for_exception or response.status_code is None
        if (has_failed or response.is_our_refusal) and operation.records_effects:
            operation.discard()
        return response


def _merged(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a route: its `own`, and those of all routes that it does not change.

    A time of all routes is left out if this route has chosen what needs none.
    """
    unneeded = {
        name for name, (choice, needs_it) in _TIMES.items() if own.get(choice, needs_it) != needs_it
    }
    return {name: value for name, value in shared.items() if name not in unneeded} | {**own}


def _own_faults(routes: object, has_adapter: object, options: Mapping[str, Any]) -> list[str]:
    own = routes if isinstance(routes, Mapping) else {}
    named: list[tuple[object, object]] = [("", options), *own.items()]
    faults = [
        "operation is no option: each route is an operation, named by its method and path"
        for _, each in named
        if isinstance(each, Mapping) and "operation" in each
    ]
    # The header of a client would be believed because of a text such as "false".
    if not isinstance(has_adapter, bool):
        faults.append(f"lambda_web_adapter is {has_adapter!r}: True or False is needed")
    are_routes = routes is None or isinstance(routes, Mapping)
    if not are_routes or not all(
        isinstance(name, str) and (each is None or isinstance(each, Mapping))
        for name, each in named
    ):
        faults.append(
            "routes has the options of each route, or None:"
            " {'POST /refunds': {'effects': 'recorded'}, 'POST /search': None}"
        )
    return faults


def _near(name: str, known: Iterable[str]) -> list[str]:
    return get_close_matches(name, known)


def _misplaced(fault: str) -> ConfigurationError:
    advice = (
        "Add a middleware that changes the path, or answers itself, after IdempotencyMiddleware,"
        " so that it runs first"
    )
    return ConfigurationError("IdempotencyMiddleware(...)", [f"{fault}. {advice}"])


def _is_success(status: int) -> bool:
    # 303 See Other is the answer of a form that has taken effect.
    return status < HTTPStatus.MULTIPLE_CHOICES or status == HTTPStatus.SEE_OTHER


def _checked(name: str, options: Mapping[str, Any]) -> idempotent:
    faults = route_faults(options.get("mode"), options.get("on_abandoned"))
    try:
        made = idempotent(operation=name, **options)
    except ConfigurationError as error:
        raise ConfigurationError("IdempotencyMiddleware(...)", [*error.faults, *faults]) from None
    if faults:
        raise ConfigurationError("IdempotencyMiddleware(...)", faults)
    return made
