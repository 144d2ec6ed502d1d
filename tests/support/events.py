"""The sample events of events/, and changes to them that keep the shape of each."""

from __future__ import annotations

import base64
import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "events"

Event = dict[str, Any]


def load(name: str) -> Event:
    """The sample event `name` (its file without `.json`), the caller's own to change."""
    return copy.deepcopy(_read(name))


@cache
def _read(name: str) -> Event:
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in FOLDER.glob("*.json")))
        raise ValueError(f"there is no sample event {name!r}; there are {known}")
    event: Event = json.loads(path.read_text("utf-8"))
    return event


def with_header(event: Event, name: str, *values: str) -> Event:
    """A copy whose header `name` has these lines; none removes it, whatever its letter case.

    Where the shape has one value a header, several lines are joined by commas, as payload 2.0 does.
    """
    changed = copy.deepcopy(event)
    for member in ("headers", "multiValueHeaders"):
        headers = changed.get(member)
        if headers is None:
            continue
        for present in [header for header in headers if header.lower() == name.lower()]:
            del headers[present]
        if values:
            headers[name] = list(values) if member == "multiValueHeaders" else ",".join(values)
    return changed


def with_key(event: Event, *values: str) -> Event:
    """A copy with this Idempotency-Key, or with none."""
    return with_header(event, "idempotency-key", *values)


def with_body(event: Event, body: str | bytes | None) -> Event:
    """A copy with this body: text as it is, bytes in base64, None for no body at all."""
    changed = copy.deepcopy(event)
    changed["isBase64Encoded"] = isinstance(body, bytes)
    changed["body"] = base64.b64encode(body).decode("ascii") if isinstance(body, bytes) else body
    return changed


def with_route(event: Event, method: str, path: str, *, resource: str | None = None) -> Event:
    """A copy sent to another method and concrete path; `resource` is the route's template.

    Without `resource` the path is its own template.
    """
    changed = copy.deepcopy(event)
    template = resource or path
    context = changed["requestContext"]
    if "http" in context:
        context["http"].update(method=method, path=path)
        changed["rawPath"] = path
        if changed["routeKey"] != "$default":
            changed["routeKey"] = context["routeKey"] = f"{method} {template}"
        return changed
    changed.update(httpMethod=method, path=path)
    if "resourcePath" in context:
        changed["resource"] = template
        context.update(httpMethod=method, resourcePath=template, path=f"/{context['stage']}{path}")
    return changed


def with_claim(event: Event, name: str, value: str | None) -> Event:
    """A copy whose verified token says this, or no longer has the claim.

    Raises:
        ValueError: No token was verified on the way of this event.
    """
    changed = copy.deepcopy(event)
    authorizer = changed["requestContext"].get("authorizer", {})
    claims = authorizer.get("jwt", authorizer).get("claims")
    if claims is None:
        raise ValueError("this sample event has no JWT claims: take apigw_http_v2_post or another")
    claims.pop(name, None)
    if value is not None:
        claims[name] = value
    return changed


def with_tenant(event: Event, tenant: str | None) -> Event:
    """A copy sent by this tenant, by its claim `tenant_id`, or by none."""
    return with_claim(event, "tenant_id", tenant)
