"""The names of the contract's headers and media types."""

from __future__ import annotations

import ast

from oncekey.http import wire
from tests.support.rooms import LAYER
from tests.support.tidy_files import project_files, within

SPELT = {
    text.lower(): name for name, text in vars(wire).items() if name.isupper() and name != "JSON"
}


def test_each_name_is_spelt_once() -> None:
    """No other module of the layer spells a header or a media type of the contract, in any letter
    case.
    """
    again = [
        f"{path}:{node.lineno} spells wire.{SPELT[node.value.lower()]}"
        for path, text in within(project_files(), LAYER).items()
        if not path.endswith("/http/wire.py")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.lower() in SPELT
    ]

    assert again == []


def test_the_names_are_those_that_clients_know() -> None:
    """draft-ietf-httpapi-idempotency-key-header-07, RFC 9110, RFC 9457 and the HTTP contract."""
    assert {name: text for name, text in vars(wire).items() if name.isupper()} == {
        "KEY": "Idempotency-Key",
        "FIRST_SENT": "Repeatability-First-Sent",
        "EXPIRES": "Idempotency-Expires",
        "REPLAYED": "Idempotent-Replayed",
        "RETRY_AFTER": "Retry-After",
        "SHOULD_RETRY": "Stripe-Should-Retry",
        "JSON": "application/json",
        "PROBLEM": "application/problem+json",
    }
