"""The control endpoints: faults, counts, held calls, events and reset. They need no key."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from oncekey_local.provider.world import WORLD

WAIT_MS_MAX = 60_000


def add_control_routes(application: web.Application) -> None:
    """Serve `/_faults`, `/_state`, `/_wait`, `/_finish`, `/_webhooks` and `/_reset`."""
    application.add_routes(
        [
            web.get("/_faults", _show_faults),
            web.post("/_faults", _set_faults),
            web.get("/_state", _show_state),
            web.post("/_wait", _wait),
            web.post("/_finish", _finish),
            web.get("/_webhooks", _show_webhooks),
            web.post("/_webhooks", _set_webhooks),
            web.post("/_reset", _reset),
        ]
    )


async def _show_faults(request: web.Request) -> web.Response:
    return web.json_response(request.app[WORLD].world.faults.state())


async def _set_faults(request: web.Request) -> web.Response:
    faults = request.app[WORLD].world.faults
    try:
        await faults.set(await _json(request))
    except ValueError as error:
        return _bad_request(str(error))
    return web.json_response(faults.state())


async def _show_state(request: web.Request) -> web.Response:
    return web.json_response(request.app[WORLD].world.counts())


async def _wait(request: web.Request) -> web.Response:
    """Answer as soon as enough calls are held, or with 408 after the given time."""
    world = request.app[WORLD].world
    try:
        held, timeout_ms = _wait_arguments(await _json(request))
    except ValueError as error:
        return _bad_request(str(error))
    enough = await world.faults.wait_held(held, timeout_ms)
    return web.json_response(world.counts(), status=200 if enough else 408)


async def _finish(request: web.Request) -> web.Response:
    """End every charge that is processing."""
    world = request.app[WORLD].world
    try:
        body = await _json(request)
    except ValueError as error:
        return _bad_request(str(error))
    if not isinstance(body, dict) or [*body] != ["decline"] or type(body["decline"]) is not bool:
        return _bad_request('send {"decline": true or false}')
    world.ledger.finish(decline=body["decline"])
    return web.json_response(world.counts())


async def _show_webhooks(request: web.Request) -> web.Response:
    return web.json_response(request.app[WORLD].world.webhooks.state())


async def _set_webhooks(request: web.Request) -> web.Response:
    """Change how events are sent. Without a hold, answer once no event is left to be sent."""
    webhooks = request.app[WORLD].world.webhooks
    try:
        await webhooks.set(await _json(request))
    except ValueError as error:
        return _bad_request(str(error))
    return web.json_response(webhooks.state())


async def _reset(request: web.Request) -> web.Response:
    """Start with empty state. Held calls end in the old world and do not affect the new one."""
    holder = request.app[WORLD]
    old = holder.world
    holder.begin()
    await old.webhooks.close()
    await old.faults.set({"hold": False})
    return web.json_response(holder.world.counts())


def _wait_arguments(body: object) -> tuple[int, int]:
    if not isinstance(body, dict) or body.keys() != {"held", "timeout_ms"}:
        raise ValueError('send {"held": how many, "timeout_ms": how long}')
    held, timeout_ms = body["held"], body["timeout_ms"]
    if type(held) is not int or held < 0:
        raise ValueError("'held' must be a whole number, 0 or more")
    if type(timeout_ms) is not int or not 0 < timeout_ms <= WAIT_MS_MAX:
        raise ValueError(f"'timeout_ms' must be a whole number from 1 to {WAIT_MS_MAX}")
    return held, timeout_ms


async def _json(request: web.Request) -> Any:
    try:
        return json.loads(await request.text())
    except ValueError:
        raise ValueError("the body must be JSON") from None


def _bad_request(message: str) -> web.Response:
    return web.json_response({"error": message}, status=400)
