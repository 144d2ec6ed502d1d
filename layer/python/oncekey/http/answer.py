"""A handler's HTTP answer: the form in which it is stored, and the headers that are added.

The first caller gets the answer as decoded from its stored form, so a replay cannot differ from it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from oncekey.encoding import json_text
from oncekey.http import wire
from oncekey.http.event import Shape
from oncekey.http.headers import check_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from oncekey.errors import Final

Answer = dict[str, Any]


# These 4xx mean "not now" and not "no": RFC 9110 section 15.5.9, RFC 8470 section 5.2, RFC 6585
# section 4. This applies to a handler's answers. Our own 408, for a request that no worker began,
# is final and is stored.
_NOT_FINAL = frozenset({408, 425, 429})
_WRITER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
# A store takes UTF-8, which has no lone surrogates. This writer escapes them to plain ASCII.
_ASCII_WRITER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_read = json_text.reader(json.JSONDecoder())
_written = json_text.writer()
_SAME_IN_JSON = frozenset({str, int, bool, type(None)})
_CONTENT_TYPE = "content-type"


def stored_form(returned: Any, shape: Shape) -> str:
    """The stored form of `returned`: compact JSON of the whole answer.

    With payload 2.0, a handler may return a bare value, which API Gateway sends as 200 with a JSON
    body
    (https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html#http-api-develop-integrations-lambda.v2).
    Such a value is stored as a whole answer, because a replay adds headers to it.

    Raises:
        TypeError: it is not an HTTP answer, or a part of it has no JSON form. The message names the
            part, without its value.
    """
    return stored_and_given(returned, shape)[0]


def stored_and_given(returned: Any, shape: Shape) -> tuple[str, Answer]:
    """The stored form of `returned`, and a fresh copy of the answer that it decodes to.

    Raises:
        TypeError: as for `stored_form`.
    """
    try:
        answer = _explicit(returned, shape)
        status_code(answer)
        if type(answer.get("body")) is not str:
            _check_body(answer)
        check_headers(answer)
    except TypeError:
        raise
    except Exception as error:
        raise _no_json(error) from error
    own = _copy_of_plain(answer)
    try:
        stored = _WRITER.encode(answer) if own is None else _written(own)
    except Exception as error:
        raise _no_json(error) from error
    if not stored.isascii() and _has_lone_surrogate(stored):
        stored, own = _ASCII_WRITER.encode(answer), None
    return stored, answer_from(stored) if own is None else own


def _copy_of_plain(answer: Answer) -> Answer | None:
    """A copy that equals `answer` after writing and reading it; None if that is not certain.

    It is certain for an answer of texts, numbers, and lists and dictionaries of texts.
    """
    copy: Answer = {}
    for name, part in answer.items():
        kind = type(part)
        if type(name) is not str:
            return None
        if kind is dict:
            for inner, text in part.items():
                if type(inner) is not str or type(text) is not str:
                    return None
        elif kind is list:
            for text in part:
                if type(text) is not str:
                    return None
        elif kind not in _SAME_IN_JSON:
            return None
        copy[name] = part.copy() if kind is dict or kind is list else part
    return copy


def final_answer(final: Final) -> Answer:
    """The answer that a raised `Final` contains.

    Raises:
        TypeError: its body or one of its headers cannot be sent.
    """
    try:
        return _final_answer(final)
    except TypeError:
        raise
    except Exception as error:
        raise _no_json(error) from error


def _final_answer(final: Final) -> Answer:
    # An author's values may have other types than declared, so they are checked like any answer.
    given: Mapping[str, Any] = final.headers
    headers = {n: str(v) if isinstance(v, int | float) else v for n, v in given.items()}
    if isinstance(final.body, str):
        return {"statusCode": final.status, "headers": headers, "body": final.body}
    if final.body is None:
        return {"statusCode": final.status, "headers": headers, "body": ""}
    # Names of headers have no case: with `content-type` given, a second one would be sent.
    if not any(str(name).lower() == _CONTENT_TYPE for name in headers):
        headers = {"Content-Type": wire.JSON, **headers}
    return {"statusCode": final.status, "headers": headers, "body": _json(final.body)}


def answer_from(stored: str) -> Answer:
    """The answer that was stored.

    Raises:
        ValueError: `stored` is not an answer.
    """
    answer = _read(stored)
    if not isinstance(answer, dict) or "statusCode" not in answer:
        raise ValueError("what is stored is no answer")
    return answer


def status_code(answer: Mapping[str, Any]) -> int:
    """The status of `answer`.

    Raises:
        TypeError: it is not a whole number from 100 to 599.
    """
    status = answer.get("statusCode")
    if isinstance(status, str) and status.isascii() and status.isdecimal():
        status = int(status)
    if isinstance(status, bool) or not isinstance(status, int) or not 100 <= status <= 599:
        raise TypeError("oncekey: the handler's answer needs a statusCode from 100 to 599")
    return status


def changed_by(hook: str, changed: Any) -> Answer:
    """The answer that an author's hook returned, after a check.

    Raises:
        TypeError: it is not an answer; the message names the hook.
    """
    if not isinstance(changed, dict) or "statusCode" not in changed:
        raise TypeError(f"oncekey: {hook} returns an answer, a dict with a statusCode")
    status_code(changed)
    return changed


def is_final(answer: Mapping[str, Any]) -> bool:
    """Whether the answer ends its request: 2xx, 3xx, and 4xx except those that mean "not now"."""
    return is_final_status(status_code(answer))


def is_final_status(status: int) -> bool:
    """The same for an answer's status."""
    return 200 <= status < 500 and status not in _NOT_FINAL


def storing_rule(store_when: str | Callable[[Answer], bool]) -> Callable[[Answer], bool]:
    """The rule for which answers are stored: the `final` ones, all (`begun`), or a callable's."""
    if callable(store_when):
        return store_when
    return is_final if store_when == "final" else (lambda _answer: True)


def with_headers(
    answer: Answer,
    added: Mapping[str, str],
    shape: Shape,
    *,
    without: frozenset[str] = frozenset(),
) -> Answer:
    """A copy of `answer` with the headers `added`, which replace headers of the same name.

    They are in the member that `shape` reads. Headers named in `without` (lower case) are removed.
    """
    names = without.union(map(str.lower, added))
    copy = dict(answer)
    for place in ("headers", "multiValueHeaders"):
        given = copy.get(place)
        if given and not names.isdisjoint(map(str.lower, given)):
            copy[place] = {n: value for n, value in given.items() if n.lower() not in names}
    if shape is Shape.LOAD_BALANCER_MULTI_VALUE:
        return _with_lines_only(copy, added)
    copy["headers"] = {**(copy.get("headers") or {}), **added}
    return copy


def _with_lines_only(answer: Answer, added: Mapping[str, str]) -> Answer:
    # A load balancer with multi-value headers reads only these, so the others are copied to them.
    many = answer.get("multiValueHeaders") or {}
    taken = {name.lower() for name, values in many.items() if values}
    plain = {
        name: [str(value)]
        for name, value in (answer.pop("headers", None) or {}).items()
        if value is not None and name.lower() not in taken
    }
    lines = {name: [value] for name, value in added.items()}
    return {**answer, "multiValueHeaders": {**plain, **many, **lines}}


def _explicit(returned: Any, shape: Shape) -> Answer:
    if isinstance(returned, dict) and "statusCode" in returned:
        return dict(returned)
    if shape is not Shape.PAYLOAD_2:
        raise TypeError(f"oncekey: a handler behind {shape.value} returns a dict with a statusCode")
    body = returned if isinstance(returned, str) else _json(returned)
    return {
        "statusCode": 200,
        "headers": {"Content-Type": wire.JSON},
        "body": body,
        "isBase64Encoded": False,
    }


def _json(value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except Exception as error:
        raise _no_json(error) from error


def _no_json(error: Exception) -> TypeError:
    """The error for an author whose answer made the encoder, or an object in it, raise `error`."""
    # Only the encoder's own messages are known to contain no value of the answer.
    is_known = type(error) in {TypeError, ValueError, RecursionError}
    why = str(error) if is_known else type(error).__name__
    return TypeError(f"oncekey: the handler's answer cannot be sent as JSON: {why}")


def _check_body(answer: Mapping[str, Any]) -> None:
    body = answer.get("body")
    if body is not None and not isinstance(body, str):
        raise TypeError(
            f"oncekey: the body of the handler's answer is text, not {type(body).__name__}:"
            " use json.dumps"
        )


def _has_lone_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
