"""Keeps pages of other origins away from the control paths of the local servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from oncekey_operator.console.guards import foreign

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

# Where a server that speaks somebody else's protocol has its own paths, such as `/_faults`.
_OWN_PATHS = "/_"


def lower_case(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers by their lower-case names; of a repeated one, the last."""
    return {name.lower(): value for name, value in headers.items()}


@web.middleware
async def only_own_pages(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Refuses a request to a control path that another origin's page has sent."""
    if request.path.startswith(_OWN_PATHS) and (reason := foreign(lower_case(request.headers))):
        return web.json_response({"error": f"refused: {reason}"}, status=403)
    return await handler(request)
