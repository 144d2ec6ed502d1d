"""Recognises an answer of ours that says "same key, wait", in the hands of whoever passes it on.

A handler that calls another protected operation and returns its "still running" has not ended. The
answer is recognised by what it says: a handler may copy it, add headers, or get it over HTTP.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from oncekey.problem import PROBLEMS
from oncekey.stripe_preset import ERRORS

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROBLEM_MEMBERS = {"type", "title", "status", "detail", "retryable"}
_ACCEPTED_MEMBERS = {"operation_id", "status", "retry_after_s"}
_CODES = tuple(code for code, problem in PROBLEMS.items() if problem.retryable)
_STRIPE_CODES = {ERRORS[code][2] for code in _CODES}
# Ours are a few hundred bytes long.
_LONGEST_BODY = 4_000


def says_not_now(answer: Mapping[str, Any], own_id: str = "") -> bool:
    """Whether `answer` is one of ours that is to be asked for again, in any preset.

    A 202 that leads to the operation `own_id`, which is giving it, is its own last word.
    """
    body = answer.get("body")
    if not isinstance(body, str) or len(body) > _LONGEST_BODY or not body.startswith("{"):
        return False
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if set(said) == _PROBLEM_MEMBERS:
        return said["retryable"] is True and str(said["type"]).endswith(_CODES)
    if set(said) == {"error"} and isinstance(said["error"], dict):
        code = said["error"].get("code")
        return isinstance(code, str) and code in _STRIPE_CODES
    if set(said) != _ACCEPTED_MEMBERS or said["operation_id"] == own_id:
        return False
    return _leads_to(answer, f"/operations/{said['operation_id']}")


def _leads_to(answer: Mapping[str, Any], location: str) -> bool:
    # An author may answer 202 with members of the same names; where ours leads is ours alone.
    found = [*_values(answer.get("headers")), *_values(answer.get("multiValueHeaders"))]
    return answer.get("statusCode") == 202 and location in found


def _values(headers: Mapping[str, Any] | None) -> list[Any]:
    values = [value for name, value in (headers or {}).items() if name.lower() == "location"]
    return [one for value in values for one in (value if isinstance(value, list) else [value])]
