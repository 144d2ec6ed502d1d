"""The provider's HTTP interface: authentication, reads, and calls that change state."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from aiohttp import web

from oncekey_local.provider import commands
from oncekey_local.provider.control import add_control_routes
from oncekey_local.provider.errors import (
    ProviderError,
    internal_error,
    invalid_request,
    unauthorised,
)
from oncekey_local.provider.keys import Answer
from oncekey_local.provider.objects import new_id
from oncekey_local.provider.parameters import Parameters
from oncekey_local.provider.search import list_page, search_page
from oncekey_local.provider.world import WORLD, Holder, World
from oncekey_local.server_guards import only_own_pages

if TYPE_CHECKING:
    from oncekey_local.provider.webhooks import Target

KEY_PREFIX = "sk_test_"
INTENTS_URL = "/v1/payment_intents"
REFUNDS_URL = "/v1/refunds"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Check = Callable[[Parameters, web.Request], commands.Command]


def create_application(target: Target | None = None) -> web.Application:
    """A provider with empty state. Its events are sent to `target`, if there is one."""
    application = web.Application(middlewares=[only_own_pages, _answer_errors])
    application[WORLD] = Holder(target)
    application.on_shutdown.append(_close_webhooks)
    intent = f"{INTENTS_URL}/{{id}}"
    application.add_routes(
        [
            web.get(INTENTS_URL, _list_intents),
            web.get(f"{INTENTS_URL}/search", _search_intents),
            web.get(intent, _retrieve_intent),
            web.post(
                INTENTS_URL, _changes(lambda params, _: commands.create_payment_intent(params))
            ),
            web.post(f"{intent}/confirm", _changes(_with_id(commands.confirm_payment_intent))),
            web.post(f"{intent}/cancel", _changes(_with_id(commands.cancel_payment_intent))),
            web.get(REFUNDS_URL, _list_refunds),
            web.get(f"{REFUNDS_URL}/{{id}}", _retrieve_refund),
            web.post(REFUNDS_URL, _changes(lambda params, _: commands.create_refund(params))),
        ]
    )
    add_control_routes(application)
    return application


async def _close_webhooks(application: web.Application) -> None:
    await application[WORLD].world.webhooks.close()


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    if not request.path.startswith("/v1/"):
        return await handler(request)
    try:
        _authenticate(request.headers.get("Authorization"))
        return await handler(request)
    except ProviderError as error:
        return _error_response(error)
    except (web.HTTPNotFound, web.HTTPMethodNotAllowed):
        message = f"Unrecognized request URL ({request.method}: {request.path})."
        return _error_response(invalid_request(message, status=404))


def _authenticate(header: str | None) -> None:
    scheme, _, credentials = (header or "").partition(" ")
    if scheme.lower() == "basic":
        try:
            credentials = base64.b64decode(credentials, validate=True).decode().partition(":")[0]
        except (binascii.Error, UnicodeDecodeError):
            credentials = ""
    elif scheme.lower() != "bearer":
        raise unauthorised(
            "You did not provide an API key. You need to provide your API key in the Authorization "
            "header, using Bearer auth (e.g. 'Authorization: Bearer YOUR_SECRET_KEY')."
        )
    if not credentials.strip().startswith(KEY_PREFIX):
        raise unauthorised(
            f"Invalid API Key provided. This provider takes any key that starts with {KEY_PREFIX}."
        )


def _changes(check: Check) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        answer = await _call(request, await request.text(), check)
        if answer is None and request.transport is not None:
            request.transport.close()
        return web.Response() if answer is None else answer

    return handle


async def _call(request: web.Request, body: str, check: Check) -> web.Response | None:
    """Handle one call that changes state. Returns None if its answer is to be lost."""
    world = request.app[WORLD].world
    world.calls += 1
    key = request.headers.get("Idempotency-Key")
    delay_s = world.faults.delay_s
    try:
        arrived = _arrive(world, request, key, Parameters(body), check)
    except ProviderError as error:
        await asyncio.sleep(delay_s)
        return _error_response(error, key=key)
    await asyncio.sleep(delay_s)
    if isinstance(arrived, Answer):
        answer = arrived
    else:
        async with world.faults.gate():
            answer = _apply(world, arrived)
            world.keys.finish(key, answer)
    if world.faults.take("lose_answer"):
        return None
    return _answer_response(answer, key=key, replayed=answer is arrived)


def _arrive(
    world: World, request: web.Request, key: str | None, params: Parameters, check: Check
) -> Answer | commands.Command:
    """The answer to replay, or the command to apply. Its key is then in use.

    It never awaits, so the second of two calls with one key always finds the key in use.

    Raises:
        ProviderError: the call is refused, and nothing is remembered.
    """
    if world.faults.take("fail"):
        raise internal_error()
    fingerprint = (request.path, params.pairs)
    answer = world.keys.look_up(key, fingerprint)
    if answer is not None:
        return answer
    command = check(params, request)
    world.keys.begin(key, fingerprint)
    return command


def _apply(world: World, command: commands.Command) -> Answer:
    request_id = new_id("req")
    try:
        body = command(world.ledger, lambda: world.faults.take("decline"))
    except ProviderError as error:
        return Answer(status=error.status, body=error.body, request_id=request_id)
    return Answer(status=200, body=body, request_id=request_id)


def _answer_response(answer: Answer, *, key: str | None, replayed: bool = False) -> web.Response:
    headers = {
        "Request-Id": new_id("req") if replayed else answer.request_id,
        "Stripe-Should-Retry": "false",
    }
    if key is not None:
        headers |= {"Idempotency-Key": key, "Original-Request": answer.request_id}
    if replayed:
        headers["Idempotent-Replayed"] = "true"
    return web.json_response(answer.body, status=answer.status, headers=headers)


def _error_response(error: ProviderError, *, key: str | None = None) -> web.Response:
    headers = {"Request-Id": new_id("req"), **error.headers}
    if key is not None and key.isprintable():
        headers["Idempotency-Key"] = key
    return web.json_response(error.body, status=error.status, headers=headers)


def _with_id(check: Callable[[Parameters, str], commands.Command]) -> Check:
    return lambda params, request: check(params, request.match_info["id"])


def _found(body: dict[str, Any]) -> web.Response:
    return web.json_response(body, headers={"Request-Id": new_id("req")})


async def _retrieve_intent(request: web.Request) -> web.Response:
    params = _query(request, "expand", "client_secret")
    params.finish()
    return _found(
        request.app[WORLD].world.ledger.payment_intent(request.match_info["id"]).as_json()
    )


async def _list_intents(request: web.Request) -> web.Response:
    params = _query(request)
    customer = params.text("customer")
    intents = [
        intent.as_json()
        for intent in reversed(request.app[WORLD].world.ledger.payment_intents.values())
        if customer in (None, intent.customer)
    ]
    return _found(list_page(intents, params, kind="payment_intent", url=INTENTS_URL))


async def _search_intents(request: web.Request) -> web.Response:
    intents = list(reversed(request.app[WORLD].world.ledger.payment_intents.values()))
    return _found(search_page(intents, _query(request), url=f"{INTENTS_URL}/search"))


async def _retrieve_refund(request: web.Request) -> web.Response:
    _query(request, "expand").finish()
    return _found(request.app[WORLD].world.ledger.refund(request.match_info["id"]).as_json())


async def _list_refunds(request: web.Request) -> web.Response:
    params = _query(request)
    payment_intent = params.text("payment_intent")
    refunds = [
        refund.as_json()
        for refund in reversed(request.app[WORLD].world.ledger.refunds.values())
        if payment_intent in (None, refund.payment_intent)
    ]
    return _found(list_page(refunds, params, kind="refund", url=REFUNDS_URL))


def _query(request: web.Request, *ignored: str) -> Parameters:
    params = Parameters(request.rel_url.raw_query_string)
    params.ignore(*ignored)
    return params
