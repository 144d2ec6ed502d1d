"""Events that differ in one thing: the key, the body, a header, or the tenant."""

from __future__ import annotations

import base64
import copy
import json
from typing import TYPE_CHECKING, Any

from oncekey.http.event import shape_of
from oncekey.http.key import FIRST_SENT, HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator

_LISTS = ("headers", "multiValueHeaders")
# They are no choice of the client's alone, or they belong to what is asked.
_NOT_CHANGED = {
    *("authorization", "content-length", "content-type", "cookie", "host", HEADER),
    *(FIRST_SENT, "x-amzn-trace-id", "x-forwarded-port", "x-forwarded-proto"),
}


def is_http(event: object) -> bool:
    """Whether `event` is an HTTP request."""
    return isinstance(event, dict) and shape_of(event) is not None


def with_key(event: Any, key: str) -> Any:
    """The same request with another key; an equal event if it has none."""
    return _with_header(event, HEADER, lambda line: f'"{key}"' if line.startswith('"') else key)


def key_of(event: Any) -> str:
    """The key of an HTTP request, as it is sent; empty if it has none."""
    for part in _LISTS:
        for name, value in (event.get(part) or {}).items():
            if name.lower() == HEADER:
                return str(value[0] if isinstance(value, list) else value)
    return ""


def changeable_headers(event: Any) -> list[str]:
    """The names of the headers that a client may change without asking for anything else."""
    names = {name.lower() for part in _LISTS for name in event.get(part) or {}}
    return sorted(names - _NOT_CHANGED)


def with_changed_header(event: Any, name: str) -> Any:
    """The same request with another value of the header `name`."""
    return _with_header(event, name, lambda line: f"{line}-other")


def _with_header(event: Any, name: str, change: Any) -> Any:
    changed = copy.deepcopy(event)
    for part in _LISTS:
        headers = changed.get(part) or {}
        for each, value in headers.items():
            if each.lower() == name:
                is_list = isinstance(value, list)
                headers[each] = [change(line) for line in value] if is_list else change(value)
    return changed


def with_changed_bodies(event: Any) -> Iterator[tuple[str, Any]]:
    """The same request with other bodies, each with the path of the value that differs.

    A path is that of a value in the JSON, such as `items.0.price`; it is empty for the whole body.
    """
    body = event.get("body") or ""
    text = body
    if event.get("isBase64Encoded"):
        text = base64.b64decode(body).decode("utf-8", "replace")
    if not text:
        return
    try:
        whole = json.loads(text)
    except ValueError:
        texts: Iterator[tuple[str, str]] = iter([("", text + "x")])
    else:
        texts = ((path, json.dumps(each)) for path, each in _changed(whole))
    for path, each in texts:
        changed = copy.deepcopy(event)
        is_encoded = event.get("isBase64Encoded")
        changed["body"] = base64.b64encode(each.encode()).decode() if is_encoded else each
        yield path, changed


def _changed(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    match value:
        case dict() if value:
            for name, member in value.items():
                for where, each in _changed(member, f"{path}.{name}"):
                    yield where, {**value, name: each}
        case list() if value:
            for number, member in enumerate(value):
                for where, each in _changed(member, f"{path}.{number}"):
                    yield where, [*value[:number], each, *value[number + 1 :]]
        case bool():
            yield path[1:], not value
        case int() | float():
            # One more than a large double is the same double.
            yield path[1:], value + 1 if value + 1 != value else value / 2
        case str():
            for each in _changed_text(value):
                yield path[1:], each
        case dict():
            yield path[1:], {"other": "other"}
        case list():
            yield path[1:], ["other"]
        case _:
            yield path[1:], "other"


def _changed_text(text: str) -> Iterator[str]:
    # A letter more may not fit the form that the handler expects. Another letter may.
    if text:
        last = text[-1]
        other = "0" if last == "1" else "1" if last.isdigit() else "b" if last == "a" else "a"
        yield text[:-1] + other
    yield text + "x"


def with_other_tenant(event: Any, tenant: str) -> Any | None:
    """The same request of another tenant; None if `event` does not say whose it is.

    Of an HTTP request, only what the gateway has verified is changed.
    """
    part = event.get("requestContext") if is_http(event) else event
    other = _replaced(part, tenant)
    if other == part:
        return None
    return {**copy.deepcopy(event), "requestContext": other} if is_http(event) else other


def with_other_claims(event: Any, tenant: str) -> Any | None:
    """The request of another caller, where `event` does not show `tenant` as it is recorded.

    It differs in the claims that are named after a tenant, or else in all that the gateway has
    verified. None if there is none, or if a claim that is named so is the recorded tenant.
    """
    if not is_http(event):
        return None
    context = event.get("requestContext") or {}
    verified = {name: context[name] for name in ("authorizer", "identity") if context.get(name)}
    named = [*_leaves(verified, "tenant")]
    if tenant in named or not (named or [*_leaves(verified, "")]):
        return None
    other = _changed_leaves(verified, "tenant" if named else "")
    return {**copy.deepcopy(event), "requestContext": {**copy.deepcopy(context), **other}}


def _leaves(value: Any, part: str, name: str = "") -> Iterator[str]:
    """The texts in `value` whose names contain `part`."""
    if isinstance(value, dict):
        for each, member in value.items():
            yield from _leaves(member, part, each)
    elif isinstance(value, str) and part in name.lower():
        yield value


def _changed_leaves(value: Any, part: str, name: str = "") -> Any:
    if isinstance(value, dict):
        return {each: _changed_leaves(member, part, each) for each, member in value.items()}
    is_changed = isinstance(value, str) and part in name.lower()
    return f"{value}-other" if is_changed else copy.deepcopy(value)


def _replaced(value: Any, tenant: str) -> Any:
    match value:
        case dict():
            return {name: _replaced(member, tenant) for name, member in value.items()}
        case list():
            return [_replaced(member, tenant) for member in value]
        case str() if value == tenant:
            return f"{tenant}-other"
        case _:
            return copy.deepcopy(value)
