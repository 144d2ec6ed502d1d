"""Answers of protected Powertools routes: as without protection, and the same on a replay."""

from __future__ import annotations

import base64
import gzip
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools.event_handler import CORSConfig, Response
from aws_lambda_powertools.shared.cookies import Cookie, SameSite

from oncekey import Final, idempotent, single_tenant
from oncekey.record.record import Status
from tests.support.events import load, with_header, with_key
from tests.support.protected import Answer, headers_of, problem_of, without_ours
from tests.support.routes import RESOLVERS, Service

if TYPE_CHECKING:
    from collections.abc import Callable

# Powertools omits a header without a value.
HEADERS: Any = {"Location": "/payments/1", "content-type": "text/x", "X-None": None}
ORIGIN = "https://shop.example"
CORS = CORSConfig(allow_origin=ORIGIN, extra_origins=["https://admin.example"], max_age=60)
COOKIES = [
    Cookie(name="session", value="a=b; c", path="/", http_only=True, same_site=SameSite.LAX_MODE),
    Cookie(name="seen", value="1", max_age=-1, custom_attributes=["Partitioned"]),
]


def flagged(content_type: str, body: str) -> Response[Any]:
    """A response that its author says is base64."""
    response: Response[Any] = Response(200, content_type, body=body)
    response.base64_encoded = True
    return response


# Made afresh for every call: a resolver changes the response that it sends.
ANSWERS: dict[str, Callable[[], Any]] = {
    "dict": lambda: {"amount": Decimal("1.10"), "name": "Zoë\ud83d\ude00"},
    "list": lambda: [1, None, "two"],
    "none": lambda: None,
    "with a status": lambda: ({"created": True}, 201),
    "a response with a dict": lambda: Response(202, "application/json", body={"a": [1]}),
    "text": lambda: Response(200, "text/plain", body="plain, and “quoted”"),
    "no content type": lambda: Response(200, body="<?>"),
    "empty": lambda: Response(204),
    "empty text": lambda: Response(200, "text/plain", body=""),
    "bytes": lambda: Response(200, "image/png", body=b"\x89PNG\x00\xff"),
    "no bytes": lambda: Response(200, "application/pdf", body=b""),
    "base64 of its own": lambda: flagged("application/json", "e30="),
    "base64 with loose ends": lambda: flagged("text/plain", "e31="),
    "base64 that is none": lambda: flagged("text/plain", "@"),
    "headers": lambda: Response(303, headers=HEADERS, body="x"),
    "a cookie": lambda: Response(200, "text/html", body="<p>", cookies=COOKIES[:1]),
    "compressed by itself": lambda: Response(200, "text/plain", body="a" * 500, compress=True),
    "not compressed": lambda: Response(200, "text/plain", body="a" * 500, compress=False),
    "final error": lambda: ({"error": "declined"}, 402),
}
MULTI_VALUE = {"apigw_rest_v1_post", "alb_multi_value_post"}
# These have a form only where a header can have several lines.
MANY: dict[str, Callable[[], Any]] = {
    "cookies": lambda: Response(200, "text/html", body="<p>", cookies=list(COOKIES)),
    "header lines": lambda: Response(
        200, "text/plain", body="x", headers={"Link": ["<a>", "<b>"], "X": "y"}
    ),
}
CASES = [(shape, name) for shape in RESOLVERS for name in ANSWERS] + [
    (shape, name) for shape in RESOLVERS if shape != "alb_post" for name in MANY
]


def decorated_route(shape: str, answer: Callable[[], Any], *, protected: bool) -> Service:
    """A resolver with everything that is added after the middlewares."""
    service = Service(shape, cors=CORS)
    middlewares: list[Callable[..., Any]] = (
        [service.protect(replay_headers={"Set-Cookie": True})] if protected else []
    )

    @service.app.post(
        "/payments", middlewares=middlewares, compress=True, cache_control="max-age=9"
    )
    def create() -> Any:
        service.runs.append("create")
        return answer()

    return service


@pytest.mark.parametrize(("shape", "name"), CASES)
def test_an_answer_is_the_same_protected_or_not_and_on_a_replay(shape: str, name: str) -> None:
    """Status, headers, cookies, body, CORS, Cache-Control and compression are those of the
    unprotected route, byte for byte, first and on a replay; a replay says that it is one.
    """
    event = with_header(with_header(load(shape), "origin", ORIGIN), "accept-encoding", "gzip")
    answer = {**ANSWERS, **MANY}[name]
    bare = decorated_route(shape, answer, protected=False).send(event)
    service = decorated_route(shape, answer, protected=True)

    first, replay = service.send(event), service.send(event)

    assert json.dumps(without_ours(first)) == json.dumps(bare)
    assert json.dumps(without_ours(replay)) == json.dumps(bare)
    assert service.runs == ["create"]
    assert "idempotent-replayed" not in headers_of(first)
    assert headers_of(replay)["idempotent-replayed"] == "true"
    assert headers_of(replay)["idempotency-expires"] == headers_of(first)["idempotency-expires"]


@pytest.mark.parametrize("shape", RESOLVERS)
def test_a_replay_is_decorated_for_its_own_request(shape: str) -> None:
    """A replay to another origin, by a client that reads no gzip, has that origin's CORS header and
    a readable body.
    """
    service = decorated_route(shape, lambda: {"x": "y" * 200}, protected=True)
    event = with_header(load(shape), "origin", ORIGIN)
    compressed = service.send(with_header(event, "accept-encoding", "gzip"))

    other = with_header(load(shape), "origin", "https://admin.example")
    plain = service.send(with_header(other, "accept-encoding", "identity"))

    assert headers_of(compressed)["content-encoding"] == "gzip"
    assert headers_of(compressed)["access-control-allow-origin"] == ORIGIN
    assert "content-encoding" not in headers_of(plain)
    assert headers_of(plain)["access-control-allow-origin"] == "https://admin.example"
    unzipped = gzip.decompress(base64.b64decode(compressed["body"])).decode()
    assert unzipped == plain["body"]


def test_what_is_stored_is_the_proxy_answer() -> None:
    """`before_store`, `store_when` and `upgrade_response` see the answer as it is sent, before CORS
    and compression; what `before_store` makes of it is what a replay gives.
    """
    service = Service("apigw_rest_v1_post", cors=CORS)
    seen: list[Answer] = []

    def redacted(answer: Answer) -> Answer:
        seen.append(answer)
        return {**answer, "body": json.dumps({"token": "***"})}

    protect = service.protect(before_store=redacted)

    @service.app.post("/payments", middlewares=[protect], compress=True)
    def create() -> Response[Any]:
        return Response(201, "application/json", {"token": "t"}, headers={"X": ["1", "2"]})

    event = with_header(load("apigw_rest_v1_post"), "origin", ORIGIN)
    first, replay = service.send(event), service.send(event)

    headers = {"X": ["1", "2"], "Content-Type": ["application/json"]}
    assert seen == [
        {
            "statusCode": 201,
            "body": '{"token":"t"}',
            "isBase64Encoded": False,
            "multiValueHeaders": headers,
        }
    ]
    assert (first["body"], replay["body"]) == ('{"token":"t"}', '{"token": "***"}')
    assert replay["multiValueHeaders"]["X"] == ["1", "2"]


def test_a_stored_answer_of_an_older_release_is_upgraded() -> None:
    """`upgrade_response` gets a stored proxy answer and its version, and its result is sent."""
    service = Service()
    release = 1

    def middleware(app: Any, next_middleware: Any) -> Any:
        return service.protect(
            response_version=release,
            upgrade_response=lambda answer, version: {
                **answer,
                "headers": {"X-New": release, "X-Old": None},
                "body": f"was {version}",
            },
        )(app, next_middleware)

    @service.app.post("/payments", middlewares=[middleware])
    def create() -> dict[str, Any]:
        return {}

    event = load("apigw_http_v2_post")
    service.send(event)
    release = 2

    replay = service.send(event)
    assert replay["body"] == "was 1"
    assert replay["headers"]["X-New"] == "2"
    assert "X-Old" not in replay["headers"]


def test_an_answer_stored_behind_one_gateway_is_replayed_behind_another() -> None:
    """Two resolvers over one store, for two kinds of gateway: the replay has the other's form."""
    first = Service("apigw_http_v2_post")
    second = Service("apigw_rest_v1_post")
    second.store, second.clock = first.store, first.clock
    for service in (first, second):
        repeating = service.protect(replay_headers={"Set-Cookie": True})

        @service.app.post("/payments", middlewares=[repeating])
        def create() -> Response[Any]:
            return Response(201, "text/plain", "x", headers={"X": "1"}, cookies=list(COOKIES))

    first.send(load("apigw_http_v2_post"))
    replay = second.send(load("apigw_rest_v1_post"))

    assert "headers" not in replay
    headers = replay["multiValueHeaders"]
    assert headers["Set-Cookie"] == [str(cookie) for cookie in COOKIES]
    assert (headers["X"], headers["Idempotent-Replayed"]) == (["1"], ["true"])


@pytest.mark.parametrize("shape", RESOLVERS)
def test_the_layers_own_answers_have_the_form_of_the_gateway(shape: str) -> None:
    """A refusal and a `Final` are sent as the resolver sends answers, with CORS headers."""
    service = Service(shape, cors=CORS)

    @service.app.post("/payments", middlewares=[service.protect()])
    def create() -> None:
        raise Final(402, {"declined": True}, headers={"Retry-After": 5})  # type: ignore[dict-item]

    event = with_header(load(shape), "origin", ORIGIN)
    refusal = service.send(with_key(event))
    final = service.send(event)

    member = "headers" if "headers" in refusal else "multiValueHeaders"
    assert problem_of(refusal) == (400, "key-missing", False)
    assert (member == "multiValueHeaders") is (shape in MULTI_VALUE)
    assert headers_of(refusal)["access-control-allow-origin"] == ORIGIN
    assert (final["statusCode"], final["body"]) == (402, '{"declined": true}')
    assert final[member]["Retry-After"] in ("5", ["5"])
    assert headers_of(final)["access-control-allow-origin"] == ORIGIN


def test_an_answer_that_cannot_be_sent_never_releases_the_key() -> None:
    """What the serializer refuses is raised, as without protection; the operation counts as carried
    out, and its answer as lost.
    """
    service = Service()

    @service.app.post("/payments", middlewares=[service.protect(effects="repeatable")])
    def create() -> dict[str, Any]:
        service.runs.append("create")
        return {"not": {"json"}}

    event = load("apigw_http_v2_post")
    with pytest.raises(TypeError, match="set is not JSON serializable"):
        service.send(event)

    assert service.record.status is Status.COMPLETED
    assert problem_of(service.send(event))[1] == "answer-unavailable"
    assert service.runs == ["create"]


# A load balancer that is not set up for more sends one line of each name.
@pytest.mark.parametrize("shape", sorted(RESOLVERS.keys() - {"alb_post"}))
def test_an_answer_that_a_plain_handler_stored_is_replayed_by_a_route(shape: str) -> None:
    """A release that moves a handler to Powertools gets the headers as the gateway sent them:
    numbers as text, without those that have no value, and with all lines of one name.

    Red when the replay raises, or lacks a line, for as long as the answer is kept.
    """
    service = Service(shape)
    stored = {
        "statusCode": 201,
        "headers": {"X-Both": "1", "X-None": None, "X-Number": 5},
        "multiValueHeaders": {"x-both": ["1", "2"], "X-Many": [3, None], "X-No": [], "X-Nil": None},
        "body": "{}",
    }
    given: dict[str, Any] = {"operation": "POST /payments", "tenant": single_tenant()}
    plain = idempotent(store=service.store, clock=service.clock, **given)
    event = load(shape)
    plain(lambda event, context: stored)(event, None)
    service.app.use(middlewares=[service.protect()])

    @service.app.post("/payments")
    def create() -> None:
        raise AssertionError("it has run before")

    # Some resolvers put a space between the lines of a name.
    sent = {
        name: value.replace(", ", ",") for name, value in headers_of(service.send(event)).items()
    }
    assert sent.pop("idempotent-replayed") == "true"
    assert {n: v for n, v in sent.items() if n.startswith("x-")} == {
        "x-both": "1,2",
        "x-number": "5",
        "x-many": "3",
    }


@pytest.mark.parametrize("shape", RESOLVERS)
def test_an_empty_answer_of_a_plain_handler_stays_empty(shape: str) -> None:
    """An answer without a body may have the type of JSON, and `null` is another answer."""
    service = Service(shape)
    given: dict[str, Any] = {"operation": "POST /payments", "tenant": single_tenant()}
    plain = idempotent(store=service.store, clock=service.clock, **given)
    event = load(shape)
    headers = {"Content-Type": "application/json"}
    plain(lambda event, context: {"statusCode": 202, "headers": headers})(event, None)
    service.app.post("/payments", middlewares=[service.protect()])(lambda: None)

    assert service.send(event)["body"] == ""
