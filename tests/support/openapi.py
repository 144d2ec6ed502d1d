"""Answers held against an OpenAPI document."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Mapping

# Of the transport, and so of no operation.
_OF_THE_TRANSPORT = frozenset({"content-type", "content-length", "date", "server", "vary"})


def check_documented(
    document: Mapping[str, Any],
    operation: str,
    *,
    status: int,
    headers: Mapping[str, str],
    body: str | bytes,
) -> None:
    """The document has an answer of this status, with these headers and such a body."""
    method, _, path = operation.partition(" ")
    answer = document["paths"][path][method.lower()]["responses"][str(status)]
    names = {name.lower(): value for name, value in headers.items()}
    known = {name.lower() for name in answer.get("headers", {})}
    assert {*names} - _OF_THE_TRANSPORT - {"location", "apigw-requestid"} <= known, operation
    media_type = names["content-type"].partition(";")[0]
    schema = {**answer["content"][media_type]["schema"], "components": document["components"]}
    Draft202012Validator(schema).validate(json.loads(body))


def codes(document: Mapping[str, Any], operation: str) -> set[str]:
    """The codes of the refusals that the document lists for an operation."""
    method, _, path = operation.partition(" ")
    answers = document["paths"][path][method.lower()]["responses"].values()
    found = set()
    for answer in answers:
        for content in answer.get("content", {}).values():
            for schema in content.get("schema", {}).get("anyOf", [content.get("schema", {})]):
                name = schema.get("$ref", "").rpartition("/")[2]
                if name.startswith(("ietf.", "stripe.")):
                    found.add(name.partition(".")[2])
    return found
