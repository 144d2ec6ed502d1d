"""Answers to browsers' pages of other origins, as API Gateway's HTTP API gives them.

It answers every preflight that no route takes, and replaces the CORS headers of the functions:
https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-cors.html
"""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING

from oncekey_local.front.http_api_response import HttpResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey_local.description import Cors


def preflight(cors: Cors | None, method: str, headers: Mapping[str, str]) -> HttpResponse | None:
    """The answer to a preflight; None for any other request, and for a service without CORS."""
    if cors is None or not cors.is_preflight(method, _by_lower_case(headers)):
        return None
    return HttpResponse(status=HTTPStatus.NO_CONTENT, headers=(), body=b"")


def with_cors(
    cors: Cors | None, answer: HttpResponse, method: str, headers: Mapping[str, str]
) -> HttpResponse:
    """`answer` with the headers for the page that sent a request with these `headers`."""
    sent = _by_lower_case(headers)
    if cors is None or "origin" not in sent:
        return answer
    origin = sent["origin"]
    is_preflight = cors.is_preflight(method, sent)
    added = cors.preflight_headers(origin) if is_preflight else cors.answer_headers(origin)
    kept = [line for line in answer.headers if not line[0].startswith("access-control-")]
    return replace(answer, headers=(*kept, *((n.lower(), value) for n, value in added.items())))


def _by_lower_case(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
