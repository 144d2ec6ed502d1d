"""What a handler's answer says: its status, whether it is a replay, whether it refuses the key."""

from __future__ import annotations

from typing import Any

from oncekey.http import wire

_REUSED = ("key-reused", "idempotency_error")


def status_of(value: object) -> int | None:
    """The status of an HTTP answer; None if `value` is none."""
    status = value.get("statusCode") if isinstance(value, dict) else None
    return int(status) if isinstance(status, int | str) else None


def is_success(value: object, error: BaseException | None) -> bool:
    """Whether it says that the work was done: by a status of 2xx, or by a function's return."""
    status = status_of(value)
    return error is None and (status is None or 200 <= status < 300)


def is_replay(value: object) -> bool:
    """Whether an HTTP answer is marked as a replay."""
    headers: dict[str, Any] = {}
    if isinstance(value, dict):
        headers = {**(value.get("headers") or {}), **(value.get("multiValueHeaders") or {})}
    return any(name.lower() == wire.REPLAYED.lower() for name in headers)


def is_key_reused(value: object, error: BaseException | None) -> bool:
    """Whether it says that the key was used for another request, in the words of any preset."""
    from oncekey.errors import KeyReused

    if isinstance(error, KeyReused):
        return True
    body = str(value.get("body") or "") if isinstance(value, dict) else ""
    return status_of(value) in {400, 422} and any(code in body for code in _REUSED)


def said(value: object) -> Any:
    """What must be the same in a replay: of an HTTP answer, its status and its body."""
    if not isinstance(value, dict) or "statusCode" not in value:
        return value
    return (int(value["statusCode"]), value.get("body"), bool(value.get("isBase64Encoded")))


def shown(value: object, error: BaseException | None) -> str:
    """An answer or an exception, for a message."""
    if error is not None:
        return f"{type(error).__name__}: {error}"
    status = status_of(value)
    if status is None or not isinstance(value, dict):
        return repr(value)
    return f"{status} {value.get('body')}"
