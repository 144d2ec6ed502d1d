"""What a client sees of a function's result, as API Gateway's payload format 2.0 has it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncekey_local.front.http_api_response import (
    HttpResponse,
    InvalidResponse,
    remark_on,
    response,
)


def made(result: Any) -> HttpResponse:
    """The response to a function's result."""
    return response(json.dumps(result).encode())


def test_full_response() -> None:
    """Status, headers, cookies and body become the HTTP response; header names are lower case."""
    result = {
        "statusCode": 201,
        "headers": {"Content-Type": "application/json", "X-Count": 3, "X-Flag": True},
        "cookies": ["a=1; Path=/", "b=2"],
        "body": '{"name":"Jürg"}',
    }
    assert made(result) == HttpResponse(
        status=201,
        headers=(
            ("content-type", "application/json"),
            ("x-count", "3"),
            ("x-flag", "true"),
            ("set-cookie", "a=1; Path=/"),
            ("set-cookie", "b=2"),
        ),
        body='{"name":"Jürg"}'.encode(),
    )


@pytest.mark.parametrize(
    ("kind", "headers", "body", "remark"),
    [
        ("replay", {"Idempotent-Replayed": "true"}, "{}", "replayed"),
        ("plain", {"Content-Type": "application/json"}, '{"type": "urn:x:y"}', ""),
        ("problem", {}, '{"type": "urn:oncekey:key-reused"}', "key-reused"),
        ("no object", {}, "[]", ""),
        ("no JSON", {}, "{", ""),
        ("too deep", {}, "[" * 100_000, ""),
    ],
)
def test_the_log_tells_replays_and_problems_apart(
    kind: str, headers: dict[str, str], body: str, remark: str
) -> None:
    """A problem is named by its code. Nothing else of an answer is logged."""
    headers = headers or {"Content-Type": "application/problem+json"}
    found = made({"statusCode": 200, "headers": headers, "body": body})
    assert remark_on(found.headers, found.body) == remark, kind


def test_base64_body() -> None:
    """A body that is said to be base64 goes out decoded."""
    assert made({"statusCode": 200, "body": "//4=", "isBase64Encoded": True}).body == b"\xff\xfe"


def test_bare_status() -> None:
    """A status alone is a response: an empty body of plain text."""
    expected = HttpResponse(
        status=204, headers=(("content-type", "text/plain;charset=UTF-8"),), body=b""
    )
    assert made({"statusCode": 204}) == expected
    assert made({"statusCode": "204", "headers": None, "cookies": None, "body": None}) == expected


@pytest.mark.parametrize(
    ("result", "body"),
    [
        ({"message": "hi"}, b'{"message":"hi"}'),
        ("hi", b"hi"),
        ([1, 2], b"[1,2]"),
        (None, b"null"),
        (0, b"0"),
    ],
)
def test_inferred_response(result: Any, body: bytes) -> None:
    """A result without a status code is the body of a JSON response with status 200."""
    assert made(result) == HttpResponse(
        status=200, headers=(("content-type", "application/json"),), body=body
    )


def test_length_is_the_gateways() -> None:
    """A function cannot say how long the body is or how it travels."""
    headers = {"Content-Length": "999", "Transfer-Encoding": "chunked", "Connection": "close"}
    made_headers = dict(made({"statusCode": 200, "headers": headers, "body": "x"}).headers)
    assert list(made_headers) == ["content-type"]


@pytest.mark.parametrize(
    "result",
    [
        {"statusCode": "ok"},
        {"statusCode": None},
        {"statusCode": 99},
        {"statusCode": 101},
        {"statusCode": 600},
        {"statusCode": True},
        {"statusCode": 200.5},
        {"statusCode": 200, "headers": ["a"]},
        {"statusCode": 200, "headers": {"a": None}},
        {"statusCode": 200, "headers": {"a": ["1"]}},
        {"statusCode": 200, "headers": {"a b": "1"}},
        {"statusCode": 200, "headers": {"a": "1\r\nset-cookie: evil=1"}},
        {"statusCode": 200, "headers": {"a": "\ud800"}},
        {"statusCode": 200, "cookies": "a=1"},
        {"statusCode": 200, "cookies": [1]},
        {"statusCode": 200, "cookies": ["a=1\nx: y"]},
        {"statusCode": 200, "body": {"a": 1}},
        {"statusCode": 200, "body": "\ud800"},
        {"statusCode": 200, "body": "not base64!", "isBase64Encoded": True},
    ],
)
def test_invalid_response(result: Any) -> None:
    """A result that is no response is refused as a whole."""
    with pytest.raises(InvalidResponse):
        made(result)


def test_not_json() -> None:
    """A result that is not JSON is refused."""
    with pytest.raises(InvalidResponse):
        response(b"<html>")
    with pytest.raises(InvalidResponse):
        response(b"[" * 100_000)
