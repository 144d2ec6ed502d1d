"""Which headers a replay repeats, and which can be sent at all."""

from __future__ import annotations

import copy
from http import HTTPStatus
from typing import Any

import pytest

from oncekey import ConfigurationError, Final, idempotent, single_tenant
from oncekey.http.event import Shape, shape_of
from oncekey.record.record import Status
from tests.support.events import load
from tests.support.protected import Protected, headers_of, is_replay

V2, REST = "apigw_http_v2_post", "apigw_rest_v1_post"
ALB, ALB_MANY = "alb_post", "alb_multi_value_post"
SHAPES = [V2, REST, ALB, ALB_MANY, "function_url_post"]
every_shape = pytest.mark.parametrize("shape", SHAPES)

OF_THE_ANSWER = [
    *("Location", "ETag", "Last-Modified", "Link", "Retry-After", "Cache-Control", "Expires"),
    *("Content-Type", "Content-Language", "Content-Location", "Content-Disposition"),
    *("Content-Security-Policy", "Strict-Transport-Security", "Vary", "X-Cost", "Deprecation"),
]
OF_THE_EXCHANGE = [
    *("Date", "Server", "Via", "Age", "Alt-Svc", "Server-Timing", "Connection", "Keep-Alive"),
    *("Transfer-Encoding", "Upgrade", "Trailer", "TE", "Proxy-Authenticate", "Proxy-Connection"),
    *("Set-Cookie", "WWW-Authenticate", "Authentication-Info", "X-Request-Id", "Request-Id"),
    *("X-Correlation-Id", "X-Amzn-Trace-Id", "x-amzn-RequestId", "X-Amz-Cf-Id", "traceparent"),
    *("tracestate", "baggage", "X-B3-TraceId", "RateLimit", "RateLimit-Remaining"),
    *("RateLimit-Policy", "X-RateLimit-Reset", "X-Rate-Limit-Limit"),
    *("Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Timing-Allow-Origin"),
    *("X-GitHub-Request-Id", "X-Ms-Request-Id", "X-Request-UUID", "X-Amzn-Remapped-Date"),
    *("X-Envoy-Upstream-Service-Time", "X-Process-Time", "X-Varnish", "X-Acme-CorrelationId"),
    *("Authorization", "X-Auth-Token", "X-CSRF-Token", "Access-Token"),
]


def answer_with(shape: str, headers: dict[str, str], place: str = "") -> dict[str, Any]:
    """An answer with these headers, where the shape has them or in `place`."""
    if (place or ("multiValueHeaders" if shape == ALB_MANY else "headers")) == "headers":
        return {"statusCode": 201, "headers": headers, "body": "made"}
    many = {name: [value] for name, value in headers.items()}
    return {"statusCode": 201, "multiValueHeaders": many, "body": "made"}


def first_and_replay(answer: Any, first: str, second: str = "", **options: Any) -> tuple[Any, Any]:
    """What the first request gets, and what a repeat through `second` gets."""
    service = Protected(**options)
    service.then = lambda _event, _op: copy.deepcopy(answer)
    return service.send(load(first)), service.send(load(second or first))


@pytest.mark.fault("K9.3")
@every_shape
@pytest.mark.parametrize("upper", [False, True])
def test_a_replay_repeats_what_belongs_to_the_answer(shape: str, upper: bool) -> None:
    """The first caller gets every header; a replay has those of the answer and none of the first
    exchange, in any letter case.

    Red when a header of the exchange is repeated, or one of the answer or of the author's is not.
    """
    names = [name.upper() if upper else name for name in (*OF_THE_ANSWER, *OF_THE_EXCHANGE)]
    answer = answer_with(shape, dict.fromkeys(names, "a value"))

    first, replay = first_and_replay(answer, shape)

    assert {name.lower() for name in names} <= set(headers_of(first))
    assert is_replay(replay)
    assert {name.lower() for name in OF_THE_ANSWER} <= set(headers_of(replay))
    assert set(headers_of(replay)).isdisjoint(name.lower() for name in OF_THE_EXCHANGE)


@pytest.mark.fault("K9.3")
@pytest.mark.parametrize("shape", [REST, ALB_MANY])
def test_both_places_of_headers_are_looked_at(shape: str) -> None:
    """A header among those of several values is no less one of the exchange.

    Red when one of the two places is forgotten.
    """
    answer = answer_with(shape, {"Date": "now", "X-Cost": "5"}, "multiValueHeaders")
    answer["headers"] = {"Server": "first", "ETag": "1"}

    replay = headers_of(first_and_replay(answer, shape)[1])

    assert (replay["x-cost"], replay["etag"]) == ("5", "1")
    assert replay.keys().isdisjoint({"date", "server"})


@pytest.mark.fault("K9.3")
@every_shape
def test_an_author_can_name_others_either_way(shape: str) -> None:
    """`replay_headers` says of a header that it is repeated, or that it is not.

    Red when the rule wins over the author's word.
    """
    answer = answer_with(shape, {"X-Request-Id": "r-1", "X-Cost": "5", "ETag": "1", "Date": "now"})
    chosen = {"x-request-ID": True, "X-COST": False, "etag": True}

    replay = headers_of(first_and_replay(answer, shape, replay_headers=chosen)[1])

    assert (replay["x-request-id"], replay["etag"]) == ("r-1", "1")
    assert replay.keys().isdisjoint({"x-cost", "date"})


@pytest.mark.fault("K9.3")
@every_shape
def test_what_is_not_repeated_is_not_stored(shape: str) -> None:
    """A session's cookie does not stand in the table for as long as the answer.

    Red when the whole answer is stored and only the replay is narrowed.
    """
    service = Protected()
    answer = answer_with(shape, {"Set-Cookie": "session=canary", "Date": "now"})
    service.then = lambda _event, _op: copy.deepcopy(answer)
    service.send(load(shape))

    (record,) = service.store.records.values()
    assert "canary" not in str(record.response)
    assert "made" in str(record.response)


@pytest.mark.fault("K9.3")
def test_what_was_stored_otherwise_is_narrowed_too() -> None:
    """An answer of a hook, of a resolver or of another release may have headers of the exchange.

    Red when only what this release stores is narrowed.
    """

    def adds(answer: dict[str, Any], *_version: int) -> dict[str, Any]:
        return {**answer, "headers": {"Date": "then", "X-Kept": "1"}}

    answer = answer_with(V2, {"ETag": "1"})
    for options in (
        {"before_store": adds},
        {"upgrade_response": adds, "response_version": 1},
    ):
        service = Protected(**options)
        service.then = lambda _event, _op: copy.deepcopy(answer)
        service.send(load(V2))
        (record,) = service.store.records.values()
        if "upgrade_response" in options:
            later = Protected(store=service.store, upgrade_response=adds, response_version=2)
            replay = headers_of(later.send(load(V2)))
        else:
            assert "then" not in str(record.response)
            replay = headers_of(service.send(load(V2)))
        assert replay["x-kept"] == "1"
        assert "date" not in replay


@pytest.mark.parametrize(
    "chosen", [["set-cookie"], {"a b": True}, {"x": 1}, {1: True}, "date", {"": True}]
)
def test_a_choice_of_headers_is_checked_when_it_is_made(chosen: Any) -> None:
    """What names no headers, or does not say yes or no, is refused as the handler is decorated."""
    with pytest.raises(ConfigurationError, match="replay_headers says of each header"):
        idempotent(operation="POST /x", tenant=single_tenant(), replay_headers=chosen)


COOKIES = ["session=1; Path=/", "seen=2"]
SEVERAL: dict[str, dict[str, Any]] = {
    V2: {"statusCode": 201, "cookies": COOKIES},
    "function_url_post": {"statusCode": 201, "cookies": COOKIES},
    REST: {"statusCode": 201, "multiValueHeaders": {"Set-Cookie": COOKIES}},
    ALB_MANY: {"statusCode": 201, "multiValueHeaders": {"set-cookie": COOKIES}},
}


def cookies_read(answer: dict[str, Any], shape: Shape | None) -> list[str]:
    """The cookies that a gateway of this shape sends."""
    single = [v for n, v in (answer.get("headers") or {}).items() if n.lower() == "set-cookie"]
    many = [
        line
        for name, lines in (answer.get("multiValueHeaders") or {}).items()
        if name.lower() == "set-cookie"
        for line in lines
    ]
    match shape:
        case Shape.PAYLOAD_2:
            return [*single, *(answer.get("cookies") or [])]
        case Shape.LOAD_BALANCER:
            return single
        case Shape.LOAD_BALANCER_MULTI_VALUE:
            return many
        case _:
            return [*single, *many]


@pytest.mark.fault("K9.5")
@pytest.mark.parametrize("first", SEVERAL)
@pytest.mark.parametrize("second", SHAPES)
def test_cookies_that_are_repeated_have_the_form_of_the_event_that_asks(
    first: str, second: str
) -> None:
    """An answer that was given behind one gateway is replayed behind another, cookies and all; a
    load balancer of single values sends one.

    Red when cookies stay where the first gateway read them.
    """
    replay = first_and_replay(SEVERAL[first], first, second, replay_headers={"set-cookie": True})[1]

    read = cookies_read(replay, shape_of(load(second)))
    assert read == (COOKIES[-1:] if second == ALB else COOKIES)
    assert "cookies" not in replay or second in (V2, "function_url_post")


@pytest.mark.fault("K9.5")
@pytest.mark.parametrize("second", SHAPES)
def test_a_single_cookie_survives_any_change_of_form(second: str) -> None:
    """A cookie among the single headers is found by every gateway.

    Red when it is moved to a place that the gateway does not read, or sent twice.
    """
    answer = {"statusCode": 201, "headers": {"set-cookie": "a=1"}, "body": "made"}

    for first in (V2, REST, ALB):
        replay = first_and_replay(answer, first, second, replay_headers={"set-cookie": True})[1]
        assert cookies_read(replay, shape_of(load(second))) == ["a=1"]


@pytest.mark.fault("K9.5")
@pytest.mark.parametrize("first", SEVERAL)
@pytest.mark.parametrize("second", SHAPES)
def test_cookies_are_not_repeated_unless_that_is_asked_for(first: str, second: str) -> None:
    """Whichever the two gateways are, a replay opens no session.

    Red when a form of cookies is not looked for.
    """
    replay = first_and_replay(SEVERAL[first], first, second)[1]

    assert "session" not in str(replay)
    assert "cookies" not in replay


BAD_VALUES = [
    *("a\r\nSet-Cookie: b", "a\nb", "a\rb", "a\x00b", "\x7f", "\x1b[0m"),
    *("\u2603", "\ud800", "\u0100"),
]
NO_TEXTS: list[Any] = [["a"], {"a": 1}, [], {}]
BAD_NAMES = ["", " ", "a b", "a:b", "a\r\nb", "é", "X-A:", "a/b", "(a)", "\x00"]
BAD: list[dict[str, Any]] = [
    *({"headers": {"X-Note": value}} for value in (*BAD_VALUES, *NO_TEXTS)),
    *({"headers": {name: "1"}} for name in BAD_NAMES),
    *({"multiValueHeaders": {"X-Note": ["fine", value]}} for value in (*BAD_VALUES, *NO_TEXTS)),
    *({"multiValueHeaders": {name: ["1"]}} for name in BAD_NAMES),
    *({"multiValueHeaders": {"X-Note": value}} for value in ("a", 1, {"a": 1})),
    *({"cookies": ["a=1", value]} for value in (*BAD_VALUES, *NO_TEXTS, 1, None)),
    *({"cookies": value} for value in ("a=1", {"a": "1"}, 1)),
    *({"headers": value} for value in (["a"], "a", 1)),
]


@pytest.mark.fault("K9.4")
@pytest.mark.parametrize("effects", ["unrecorded", "repeatable", "recorded"])
def test_a_header_that_cannot_be_sent_is_refused_at_the_first_call(effects: str) -> None:
    """Its author is told, without the value; the record is settled, and nothing runs again.

    Red when a line break, a character beyond Latin-1, a name that is no token or a list gets into
    what is stored, or a repeat runs the handler once more.
    """
    for number, headers in enumerate(BAD):
        service = Protected(effects=effects)
        answer = {"statusCode": 201, "body": "made", **headers}
        service.then = lambda _event, _op, answer=answer: copy.deepcopy(answer)

        with pytest.raises(TypeError, match="handler's answer") as told:
            service.send(load(V2))
        assert "Set-Cookie: b" not in str(told.value)
        assert "\x1b" not in str(told.value)

        (record,) = service.store.records.values()
        assert record.status is Status.COMPLETED, (number, headers)
        repeat = service.send(load(V2))
        assert repeat["statusCode"] == 500
        assert len(service.runs) == 1


@pytest.mark.fault("K9.4")
@pytest.mark.parametrize("value", ["a\r\nb", "\u2603", ["a"]])
def test_a_final_that_cannot_be_sent_is_refused_as_well(value: Any) -> None:
    """What is raised as the last word is held to the same rule.

    Red when the headers of `Final` are turned into text whatever they are.
    """
    service = Protected()

    def handler(_event: object, _op: object) -> Any:
        raise Final(402, {"declined": True}, headers={"X-Note": value})

    service.then = handler
    with pytest.raises(TypeError, match="X-Note"):
        service.send(load(V2))
    assert service.send(load(V2))["statusCode"] == 500
    assert len(service.runs) == 1


@pytest.mark.fault("K9.4")
@pytest.mark.parametrize(
    "status", [True, False, 99, 600, -1, 201.0, "abc", "", "\u0662\u0660\u0661", "2.0", [200]]
)
def test_a_status_that_cannot_be_sent_is_refused_at_the_first_call(status: Any) -> None:
    """A status is a whole number from 100 to 599, or its ASCII digits.

    Red when a flag, a fraction or another digit than those of ASCII passes for one.
    """
    service = Protected()
    service.then = lambda _event, _op: {"statusCode": status, "body": "made"}

    with pytest.raises(TypeError, match="statusCode from 100 to 599"):
        service.send(load(V2))


@every_shape
def test_what_can_be_sent_is_sent(shape: str) -> None:
    """Numbers, flags, Latin-1, tabs and an enum's status reach the client and a replay alike."""
    headers: dict[str, Any] = {"X-A": 5, "X-B": True, "X-C": "Zoë\tÿ", "X-D": "", "X-E": 1.5}
    answer = answer_with(shape, headers, "headers") | {"statusCode": HTTPStatus.CREATED}

    first, replay = (headers_of(each) for each in first_and_replay(answer, shape))

    for found in (first, replay):
        assert str(found["x-a"]) == "5"
        assert found["x-c"] == "Zoë\tÿ"
