"""What the functions of a service may ask of the local store: what their description grants.

A function signs with an access key of its own. Every other key may do everything: it is that of the
local runtime itself, of a test or of a person.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from aiohttp import web

from oncekey_local.description.grants import grants_of
from oncekey_local.functions.environment import (
    access_key,
    arn_of,
    function_name,
    role_session_arn,
)
from oncekey_local.store.called_actions import needed
from oncekey_local.store.missing_grants import remedies

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from oncekey_local.description import Service

PERMISSIONS_PATH = "/_permissions"


def permissions_of(service: Service) -> dict[str, Any]:
    """What the store is told of a service, as JSON."""
    return {
        "callers": {
            access_key(function): {
                "function": function.name,
                "arn": role_session_arn(function_name(service, function)),
                "may": [
                    (action, arn_of(service, grant))
                    for grant in grants_of(service, function)
                    for action in grant.actions
                ],
            }
            for function in service.functions
        },
        "remedies": remedies(service),
    }


@dataclass(frozen=True, kw_only=True)
class _Caller:
    function: str
    arn: str
    may: Iterable[tuple[str, str]]


class Permissions:
    """Who may do what. Before it is told of a service, everybody may do everything."""

    def __init__(self) -> None:
        self._callers: dict[str, _Caller] = {}
        self._remedies: list[tuple[str, str, str]] = []

    def tell(self, permissions: Mapping[str, Any]) -> None:
        """Takes over what `permissions_of` returns."""
        self._callers = {key: _Caller(**one) for key, one in permissions["callers"].items()}
        self._remedies = [(action, arn, text) for action, arn, text in permissions["remedies"]]

    def refusal(self, request: web.BaseRequest, body: bytes) -> tuple[web.Response, str] | None:
        """AWS's refusal of a request that its function may not make, and a line for the log."""
        caller = self._callers.get(_access_key(request))
        if caller is None:
            return None
        for action, arn in needed(request, body):
            if not any(action == one and _covers(pattern, arn) for one, pattern in caller.may):
                remedy = self._remedy(caller, action, arn)
                message = (
                    f"User: {caller.arn} is not authorized to perform: {action} on resource: {arn}"
                    f" because no identity-based policy allows the {action} action. {remedy}"
                )
                return _answer(request, message), f"AccessDenied: {action} on {arn}: {remedy}"
        return None

    def _remedy(self, caller: _Caller, action: str, arn: str) -> str:
        found = (
            text for one, pattern, text in self._remedies if one == action and _covers(pattern, arn)
        )
        others = (
            text for one, pattern, text in self._remedies if one == "" and _covers(pattern, arn)
        )
        add = next(found, None) or next(others, "").format(action=action)
        if not add:
            return "The description has no such table, index, bucket or queue."
        return f'The description does not grant it: give Function(name="{caller.function}") {add}.'


def _covers(pattern: str, arn: str) -> bool:
    return arn.startswith(pattern[:-1]) if pattern.endswith("*") else arn == pattern


def _access_key(request: web.BaseRequest) -> str:
    """The one that signed the request, in its header or, presigned, in its query."""
    signed = request.headers.get("Authorization", "").partition("Credential=")[2]
    return (signed or request.rel_url.query.get("X-Amz-Credential", "")).partition("/")[0]


def _answer(request: web.BaseRequest, message: str) -> web.Response:
    target = request.headers.get("X-Amz-Target", "")
    if not target:
        code = f"<Code>AccessDenied</Code><Message>{escape(message)}</Message>"
        body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{code}</Error>'
        return web.Response(status=403, content_type="application/xml", text=body)
    content = {"__type": "com.amazon.coral.service#AccessDeniedException", "Message": message}
    if target.startswith("AmazonSQS."):
        headers = {"x-amzn-query-error": "AccessDenied;Sender"}
        return web.json_response(content | {"message": message}, status=403, headers=headers)
    return web.json_response(content, status=400)
