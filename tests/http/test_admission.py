"""Which requests are let in, and whose operation they are."""

from __future__ import annotations

import json

import pytest

from oncekey import STRIPE, jwt_claim
from oncekey.testing.memory import MemoryStore
from tests.support.events import (
    load,
    with_body,
    with_claim,
    with_header,
    with_key,
    with_route,
    with_tenant,
)
from tests.support.protected import (
    SHAPES,
    Protected,
    headers_of,
    problem_of,
    records,
)

POST = load("apigw_http_v2_post")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.requirement("A1")
@pytest.mark.requirement("B12")
@pytest.mark.case(32)
def test_a_request_without_a_key_is_refused_and_no_key_is_made_up(shape: str) -> None:
    """No key: 400 `key-missing`; nothing runs and nothing is written.

    Red when a missing key passes, or the server makes one up.
    """
    service = Protected()

    assert problem_of(service.send(with_key(load(shape)))) == (400, "key-missing", False)
    assert service.runs == []
    assert records(service) == []


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("", id="blank"),
        pytest.param("   ", id="spaces"),
        pytest.param("short", id="too short"),
        pytest.param("k" * 256, id="too long"),
        pytest.param("schlüssel-mit-umlaut-123", id="not ASCII"),
        pytest.param("a-list-of-keys-1, a-list-of-keys-2", id="list"),
        pytest.param('"a-quoted-key-12345";p=1', id="parameter"),
        pytest.param('"a-quoted-key-12345', id="unbalanced quote"),
        pytest.param("with\x00control-characters", id="control character"),
    ],
)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.case(32)
def test_a_malformed_key_is_refused(shape: str, key: str) -> None:
    """A blank, short, long, non-ASCII or list-valued key: 400 `key-invalid`, nothing written.

    Red when any of them reaches the store.
    """
    service = Protected()

    assert problem_of(service.send(with_key(load(shape), key))) == (400, "key-invalid", False)
    assert service.runs == []
    assert records(service) == []


@pytest.mark.parametrize("shape", SHAPES)
def test_two_different_keys_in_one_request_are_refused(shape: str) -> None:
    """Two lines with different keys: 400 `key-invalid`, nothing written."""
    service = Protected()
    event = with_key(load(shape), "first-key-of-two-1", "second-key-of-two-2")
    if shape == "alb_post":
        event["headers"]["Idempotency-key"] = "third-spelling-of-it"

    assert problem_of(service.send(event)) == (400, "key-invalid", False)
    assert records(service) == []


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("key", ["a-key-between-blanks", '"a-key-between-blanks"'])
def test_a_key_is_echoed_as_it_was_sent_without_blanks_around_it(shape: str, key: str) -> None:
    """The first answer and the replay name the client's key in its own spelling; blanks around a
    header's value belong to nobody.

    Red when the key comes back with the blanks, or in the other spelling.
    """
    service = Protected()
    event = with_key(load(shape), f" \t{key} ")

    for _ in range(2):
        assert headers_of(service.send(event))["idempotency-key"] == key


@pytest.mark.parametrize("shape", SHAPES)
def test_the_header_is_found_in_any_letter_case(shape: str) -> None:
    """`IDEMPOTENCY-KEY` and `idempotency-key` name the same header."""
    service = Protected()
    event = with_key(load(shape), "a-key-in-any-letter-case")
    shouted = with_header(with_key(load(shape)), "IDEMPOTENCY-KEY", "a-key-in-any-letter-case")

    service.send(event)

    assert headers_of(service.send(shouted))["idempotent-replayed"] == "true"


@pytest.mark.parametrize("missing", [None, "", "  "])
def test_a_request_whose_tenant_cannot_be_derived_is_refused(missing: str | None) -> None:
    """No tenant in the verified context: 403 `tenant-missing`, nothing written."""
    service = Protected(tenant=jwt_claim("tenant_id"))
    event = with_tenant(POST, missing)
    event["headers"]["tenant_id"] = "forged"

    assert problem_of(service.send(event)) == (403, "tenant-missing", False)
    assert records(service) == []


@pytest.mark.requirement("C1")
@pytest.mark.requirement("C11")
@pytest.mark.case(35)
def test_another_tenant_with_the_same_key_is_another_operation() -> None:
    """Two tenants may use one key: both run, and neither sees the other's answer.

    Red when the tenant is left out of the identity.
    """
    service = Protected(tenant=jwt_claim("tenant_id"))

    acme = service.send(with_tenant(POST, "acme"))
    globex = service.send(with_tenant(POST, "globex"))

    assert (acme["body"], globex["body"]) == ('{"run": 1}', '{"run": 2}')
    assert "idempotent-replayed" not in headers_of(globex)
    assert service.send(with_tenant(POST, "acme"))["body"] == acme["body"]
    assert [operation.tenant for operation in service.runs] == ["acme", "globex"]


@pytest.mark.requirement("C12")
def test_a_key_can_be_scoped_by_the_principal() -> None:
    """With `principal`, two users of one tenant may use one key; without it they share it.

    Red when the principal is left out of the identity, or put in unasked.
    """
    scoped = Protected(tenant=jwt_claim("tenant_id"), principal=jwt_claim("sub"))
    shared = Protected(tenant=jwt_claim("tenant_id"))
    for service in (scoped, shared):
        service.send(with_claim(POST, "sub", "user-1"))
        service.send(with_claim(POST, "sub", "user-2"))

    assert len(scoped.runs) == 2
    assert len(shared.runs) == 1


@pytest.mark.requirement("B1")
@pytest.mark.case(33)
@pytest.mark.case(35)
def test_the_operation_is_a_part_of_the_identity_and_the_code_is_not() -> None:
    """One key on two operations is two operations; a renamed handler keeps its history.

    Red when the operation is left out of the identity, or the function's name is put in.
    """
    store = MemoryStore()
    payments = Protected(store=store)
    refunds = Protected(store=store, operation="POST /refunds")
    renamed = Protected(store=store)
    renamed.handler.__name__ = renamed.handler.__qualname__ = "another_name"

    payments.send(POST)
    refunds.send(POST)
    replay = renamed.send(POST)

    assert (len(payments.runs), len(refunds.runs), len(renamed.runs)) == (1, 1, 0)
    assert headers_of(replay)["idempotent-replayed"] == "true"


@pytest.mark.requirement("A13")
def test_two_identical_requests_with_different_keys_both_run() -> None:
    """The body's hash is never the key: the same request under a new key is a new operation.

    Red when records are found by fingerprint.
    """
    service = Protected()

    service.send(with_key(POST, "first-key-of-a-client"))
    service.send(with_key(POST, "second-key-of-a-client"))

    assert len(service.runs) == 2


@pytest.mark.parametrize("keys", [(), ("a-key-that-nobody-asked-for",)], ids=["no key", "a key"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("name", ["{} /payments", "{} /payments/{{id}}", " {}  /"], ids=repr)
@pytest.mark.requirement("A9")
def test_methods_that_are_idempotent_by_nature_need_no_key(
    method: str, keys: tuple[str, ...], name: str
) -> None:
    """GET, HEAD, and PUT and DELETE in an operation that is named so, pass through untouched each
    time, with or without a key.

    Red when every method needs a key, or one that brings a key is recorded or replayed.
    """
    service = Protected(operation=name.format(method.lower()))
    service.then = lambda event, op: {"protected": op.protected, "event": event}
    event = with_key(with_route(POST, method, "/payments"), *keys)

    for _ in range(2):
        assert service.send(event) == {"protected": False, "event": event}
    assert len(service.runs) == 2
    assert records(service) == []


# The operation, its methods that need a key, and what reaches its handler beside what is safe.
UNSAFE: list[tuple[str, tuple[str, ...], set[str]]] = [
    ("POST /payments", ("POST", "PATCH"), {"POST", "PATCH"}),
    ("POST /payments", ("POST",), {"POST"}),
    ("POST /payments", ("POST", "put"), {"POST", "PUT"}),
    ("PUT /payments", ("POST",), {"POST", "PUT"}),
    ("DELETE /payments", ("PATCH",), {"PATCH", "DELETE"}),
    # Names that are no route, or a route of every method, name no method.
    ("create payment", ("POST", "PATCH"), {"POST", "PATCH"}),
    ("put payment", ("POST",), {"POST"}),
    ("DELETE", ("POST",), {"POST"}),
    ("ANY /payments", ("POST", "PATCH"), {"POST", "PATCH"}),
    ("$default", ("POST", "PATCH", "DELETE"), {"POST", "PATCH", "DELETE"}),
]
METHODS = ["GET", "HEAD", "OPTIONS", "POST", "PATCH", "PUT", "DELETE", "PROPFIND", "TRACE", ""]


@pytest.mark.parametrize(("name", "methods", "unsafe"), UNSAFE)
@pytest.mark.parametrize("shape", SHAPES)
def test_another_unsafe_method_is_refused(
    shape: str, name: str, methods: tuple[str, ...], unsafe: set[str]
) -> None:
    """What would run unprotected gets a 405 with `Allow`, runs nothing and leaves no record, with a
    key or without: that is each method that is neither safe, nor in `methods`, nor the operation's.

    Red when such a method reaches the handler, or `Allow` lists other methods than those that do.
    """
    reach = {"GET", "HEAD", "OPTIONS", *unsafe}
    sample = load(shape)
    for method in METHODS:
        service = Protected(operation=name, methods=methods)
        for event in (sample, with_key(sample)):
            answer = service.send(with_route(event, method, "/payments"))
            if method in reach:
                continue
            assert problem_of(answer) == (405, "method-not-allowed", False)
            assert headers_of(answer)["allow"] == ", ".join(sorted(reach))
        assert bool(service.runs) is (method in reach)
        assert bool(records(service)) is (method in {m.upper() for m in methods})


def test_a_refused_method_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever put the decorator on a handler of several methods is told what to write."""
    service = Protected(operation="POST /refused-methods")
    for _ in range(2):
        service.send(with_route(POST, "DELETE", "/refused-methods"))

    (said,) = [r for r in caplog.records if vars(r).get("oncekey_event") == "method-refused"]
    assert "methods=" in said.getMessage()


def test_clients_of_stripe_are_told_of_the_method_in_its_words() -> None:
    """The STRIPE preset has the same status and header, and an error object."""
    answer = Protected(preset=STRIPE).send(with_route(POST, "PUT", "/payments"))

    assert (answer["statusCode"], headers_of(answer)["stripe-should-retry"]) == (405, "false")
    assert headers_of(answer)["allow"] == "GET, HEAD, OPTIONS, PATCH, POST"
    assert json.loads(answer["body"])["error"]["code"] == "method_not_allowed"


def test_a_method_can_be_made_to_need_a_key() -> None:
    """`methods` decides which ones do."""
    service = Protected(methods=("PUT",))

    put = with_key(with_route(POST, "PUT", "/payments"))
    assert problem_of(service.send(put))[1] == "key-missing"
    assert service.send(with_key(POST))["statusCode"] == 201


@pytest.mark.parametrize("body", ["not json {", "[" * 10_000 + "]" * 10_000, "x" * 6_000_000, ""])
def test_any_body_can_be_protected(body: str) -> None:
    """What is no JSON, nested 10,000 deep or 6 MB long reaches the handler, once."""
    service = Protected()

    assert service.send(with_body(POST, body))["statusCode"] == 201
    assert headers_of(service.send(with_body(POST, body)))["idempotent-replayed"] == "true"


def test_a_body_marked_as_base64_that_is_not_is_refused() -> None:
    """Invalid base64: 400 `request-invalid`, nothing written."""
    service = Protected()
    event = with_body(POST, "no base64!") | {"isBase64Encoded": True}

    assert problem_of(service.send(event)) == (400, "request-invalid", False)
    assert records(service) == []
