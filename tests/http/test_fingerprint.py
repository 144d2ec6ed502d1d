"""The fingerprint of a request: what counts as the same request, and what does not."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncekey.errors import ConfigurationError, RequestRefused
from oncekey.http.event import read_request
from oncekey.http.fingerprint import fingerprints, selected_fingerprint
from tests.support import events
from tests.support.stable_names import stable_repr

SHAPES = ["apigw_http_v2_post", "apigw_rest_v1_post", "alb_post", "alb_multi_value_post"]
V2 = "apigw_http_v2_post"


def sent(
    body: str | bytes | None = '{"amount":1200}',
    *,
    method: str = "POST",
    path: str = "/payments",
    query: str = "",
    media_type: str = "application/json",
) -> str:
    """The fingerprint of this request, as an HTTP API hands it on."""
    event = events.with_route(events.with_body(events.load(V2), body), method, path)
    event["rawQueryString"] = query
    return fingerprints(read_request(events.with_header(event, "content-type", media_type))).current


GOLDEN = {
    "f1:3JpnuFWId706rWokoz2zkLKjohEjOjJtBL7bE8FKzec": sent(
        '{"a":null}', media_type="application/merge-patch+json"
    ),
    "f1:t4LklcLlQlkpO8z_Bkzw3Ah3Jce3MSmLG1lH-8E7Zk0": sent(
        '{"a":null}', media_type='application/json; Profile="x"; charset=utf-8'
    ),
    "f1:kmRxJ-8qroNvFXYptx6QL-IMe7LXHverJYc-7R_fdRg": sent(),
    "f1:ti-p0VQDLgiKkcrF5lIghNAARuADABfwxyca9bfky5k": sent(
        '{"amount":1200,"currency":"eur","items":[{"id":"é","weight":1e-5},null,true]}'
    ),
    "f1:aO_nYA--Nc0t5WvuL8BhECcrusSbjmr04fRQVtgtBGU": sent(query="b=2&a=1&a=%C3%A9+x"),
    "f1:hioD6TA2OSPraoQCGZ_fxS9JUYO87_1-p7Clhh639OE": sent(
        "amount=1200", media_type="application/x-www-form-urlencoded"
    ),
    "f1:Jr4TSr-GvoNevJmCFvWmV-n9tNcZXmpKoSy6B16z5CY": sent(None),
    "f1:GmpMTqNYjvROFHbgn1HVEpQWNgwJQwJe3VoapHh2rX0": sent(
        b"\x00\xff", media_type="application/octet-stream"
    ),
    "f1:6zwD7M21azmVTxm7w5fHVWz4VtWPD3HLNW0XWKKdsrk": sent(method="PATCH", path="/payments/pay_1"),
    "f1:5eE_941XKL9og7sDfoSG8AgAEf6PlaZOmCesWwoGTH4": sent('{"amount":9007199254740993}'),
}


@pytest.mark.case(28)
@pytest.mark.parametrize(("pinned", "found"), GOLDEN.items())
def test_fingerprints_never_change(pinned: str, found: str) -> None:
    """A release that moves a fingerprint would refuse the honest retries of the one before.

    Red when anything that is hashed, or its order, is changed under the same version.
    """
    assert found == pinned


def test_a_fingerprint_names_its_algorithm_and_shows_nothing() -> None:
    """A fingerprint is the version and a hash, of one length whatever the body."""
    assert re.fullmatch(r"f1:[\w-]{43}", sent('{"card":"4242424242424242"}'))


@pytest.mark.requirement("C7")
@pytest.mark.case(28)
@pytest.mark.parametrize(
    "body",
    [
        '{"b":[1,"é"],"a":{"c":null,"d":1}}',
        '{"a":{"d":1,"c":null},"b":[1,"é"]}',
        ' {\n"a" : {"c":null,\t"d":1}, "b" : [ 1 , "é" ] }\r\n',
        '{"a":{"c":null,"d":1.0},"b":[1e0,"é"]}',
        '{"a":{"c":null,"d":10e-1},"b":[1.00,"\\u00e9"]}',
        '{"\\u0061":{"c":null,"d":1},"b":[1,"\\u00E9"]}',
    ],
)
def test_the_spelling_of_json_makes_no_difference(body: str) -> None:
    """Key order, white space, escapes and the spelling of numbers do not change a fingerprint.

    Red when `_body` hashes the body as it came.
    """
    assert sent(body) == sent('{"a":{"c":null,"d":1},"b":[1,"é"]}')


@pytest.mark.case(28)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":"\u00e9"}', '{"a":"e\u0301"}'),
        ('{"a":"A"}', '{"a":"\u0391"}'),
        ('{"a":"A"}', '{"a":"a"}'),
        ('{"a":[1,2]}', '{"a":[2,1]}'),
        ('{"a":1}', '{"a":"1"}'),
        ('{"a":1}', '{"a":true}'),
        ('{"a":null}', "{}"),
        ('{"a":" x"}', '{"a":"x"}'),
        ('{"a":9007199254740993}', '{"a":9007199254740992}'),
        ('{"a":9007199254740993.0}', '{"a":9007199254740992.0}'),
        ('{"a":0.1}', '{"a":0.1000000000000000055511151231257827}'),
        ('{"a":1,"a":2}', '{"a":2}'),
        ('{"a":"\\ud800"}', '{"a":"\\ud801"}'),
        ("{}", "[]"),
        ("", "{}"),
        ("", "null"),
        ('"1"', "1"),
    ],
)
def test_different_json_has_different_fingerprints(one: str, other: str) -> None:
    """Unicode forms, look-alikes, array order, types, and numbers that differ at all, differ.

    Red when a body is normalised, sorted or rounded beyond RFC 8785.
    """
    assert sent(one) != sent(other)


def test_a_body_in_base64_is_its_text() -> None:
    """A gateway that encodes the body changes nothing."""
    assert sent(b'{"amount":1200}') == sent('{ "amount": 1200 }')
    assert sent(b"a=1", media_type="text/plain") == sent("a=1", media_type="text/plain")


BODIES = ['[{"op":"remove","path":"/a"}]', '{"a":1}', "1", "a=1", "", '{"a":1,"a":2}']
MEDIA_TYPES = [
    *("application/json", "application/json-patch+json", "application/merge-patch+json"),
    *("application/vnd.payment+json", "application/vnd.payment.v2+json", "text/plain"),
    *("application/json; profile=a", "application/json; profile=b", "application/json;version=1"),
    *("application/json; profile=A", "application/json; profile=a; version=1"),
    *("multipart/form-data; boundary=a", "multipart/form-data; boundary=b"),
    *('application/json; profile="a;version=1"', 'application/json; profile="a\\";version=1"'),
]


@pytest.mark.fault("K8.1")
@pytest.mark.parametrize("body", BODIES)
def test_a_media_type_counts_where_it_is_not_plain_json(body: str) -> None:
    """The same bytes under another media type, or with another parameter of it, are another
    request: a JSON patch is no merge patch.

    Red when the media type of a JSON body is left out, or its parameters are.
    """
    found = {sent(body, media_type=media_type) for media_type in MEDIA_TYPES}

    assert len(found) == len(MEDIA_TYPES)


@pytest.mark.fault("K8.1")
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("application/json", "application/json; charset=utf-8"),
        ("application/json", 'Application/JSON;CHARSET="UTF-8" '),
        ("application/json", "application/json;"),
        ("application/json;profile=a", 'application/json ; Profile="a"; charset=latin-1'),
        ("application/json;a=1;b=2", "application/json; b=2; a=1"),
        ("application/merge-patch+json", "APPLICATION/merge-patch+JSON; charset=utf-8"),
        ("text/plain", "TEXT/Plain; charset=utf-8"),
        ('application/json;profile="a\\b"', "application/json;profile=ab"),
    ],
)
def test_charset_and_case_of_a_media_type_do_not_count(body: str, one: str, other: str) -> None:
    """Letter case, the charset, and the spelling and order of parameters make no difference.

    Red when the header is hashed as it came.
    """
    assert sent(body, media_type=one) == sent(body, media_type=other)


@pytest.mark.fault("K8.1")
def test_json_of_another_media_type_is_json_all_the_same() -> None:
    """A type that ends with +json, and an object under any name, are compared by their meaning.

    Red when only plain JSON is canonicalised.
    """
    for media_type in MEDIA_TYPES:
        one = sent('{"a":1.0,"b":[true]}', media_type=media_type)
        assert one == sent('{ "b": [true], "a": 1 }', media_type=media_type)


@pytest.mark.fault("K8.1")
def test_a_missing_media_type_is_plain_json() -> None:
    """A client that does not name it sends JSON, as its handler takes it.

    Red when a request without a media type is another than the same as JSON.
    """
    event = events.with_header(events.with_body(events.load(V2), '{"amount":1200}'), "content-type")

    assert fingerprints(read_request(event)).current == sent()


def test_a_scalar_is_json_only_where_it_is_declared() -> None:
    """1 and 1.0 are one number in JSON, and two lines in a text."""
    assert sent("1.0") == sent("1")
    assert sent("1.0", media_type="text/plain") != sent("1", media_type="text/plain")
    assert sent("1", media_type="text/plain") != sent("1")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("b=2&a=1", "a=1&b=2"),
        ("a=x%20y", "a=x+y"),
        ("a=%c3%a9", "a=%C3%A9"),
        ("%61=1", "a=1"),
        ("a=1&&b=2&", "a=1&b=2"),
        ("a", "a="),
        ("b=2&a=1&a=0", "a=1&b=2&a=0"),
        ("", "&"),
    ],
)
def test_the_spelling_of_a_query_makes_no_difference(one: str, other: str) -> None:
    """The order of names, escapes, and + for a space do not change a fingerprint."""
    assert sent(query=one) == sent(query=other)


@pytest.mark.requirement("D10")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a=1&a=2", "a=2&a=1"),
        ("a=1", "a=2"),
        ("a=1", "A=1"),
        ("a=", ""),
        ("a=1&b=2", "a=1%26b%3D2"),
        ("a=b=c", "a%3Db=c"),
        ("a=+", "a=%2B"),
        ("a=%ff", "a=%fe"),
        ("a=%ff", "a=%EF%BF%BD"),
        ("a=%zz", "a=%zy"),
        ("a=%", "a=%2"),
        ("a=%zz", "a=zz"),
        ("a=\ud800", "a=\ud801"),
        ("a=1&ab=", "a=&ab=1"),
        ("a=1;b=2", "a=1&b=2"),
    ],
)
def test_different_queries_have_different_fingerprints(one: str, other: str) -> None:
    """Values, their order under one name, escaped delimiters and invalid escapes all count.

    Red when the query is hashed as joined text, or decoded with replacement characters.
    """
    assert sent(query=one) != sent(query=other)


@pytest.mark.requirement("E5")
def test_method_path_query_and_body_are_all_compared() -> None:
    """A change of the method, the path, a parameter or the body is another request.

    Red when `fingerprint` leaves any one of the four out.
    """
    changed = {
        sent(method="PATCH"),
        sent(path="/payments/1"),
        sent(query="a=1"),
        sent('{"amount":1300}'),
    }

    assert len(changed | {sent()}) == 5


@pytest.mark.requirement("D10")
@given(st.lists(st.text("ab/?&=", min_size=1, max_size=5), min_size=2, max_size=2))
def test_path_and_query_cannot_be_taken_for_each_other(parts: list[str]) -> None:
    """What moves from the query into the path is another request.

    Red when `fingerprint` hashes the parts joined.
    """
    path, query = parts

    assert sent(path=f"/{path}?{query}") != sent(path=f"/{path}", query=f"q{query}")
    assert sent(path=f"/{path}{query}") != sent(path=f"/{path}", query=f"q{query}")


@pytest.mark.parametrize("name", [*SHAPES, "function_url_post", "apigw_http_v2_base64_post"])
def test_a_request_is_the_same_in_every_shape(name: str) -> None:
    """A service that moves from one front to another goes on recognising its requests."""
    event = events.load(name)
    pairs = {"a": ["é +", "1"], "b": [""]}
    if "rawPath" in event:
        event["rawQueryString"] = "b=&a=%C3%A9+%2B&a=1"
    elif name == "alb_post":
        # A load balancer keeps the last value of a name only, unless it sends them all.
        event["queryStringParameters"] = {"a": "1", "b": ""}
        assert_same_as_v2(event, "a=1&b")
        return
    elif name == "alb_multi_value_post":
        event["multiValueQueryStringParameters"] = {"b": [""], "a": ["%C3%A9+%2B", "1"]}
    else:
        event["multiValueQueryStringParameters"] = pairs
        event["queryStringParameters"] = {"a": "1", "b": ""}
    assert_same_as_v2(event, "a=%C3%A9%20%2B&a=1&b=")


def assert_same_as_v2(event: events.Event, query: str) -> None:
    """The event has the fingerprint of the HTTP API's sample with this query."""
    event = events.with_header(event, "content-type", "application/json")
    reference = events.load(V2)
    reference["rawQueryString"] = query
    assert (
        fingerprints(read_request(event)).current == fingerprints(read_request(reference)).current
    )


def test_headers_and_cookies_make_no_difference() -> None:
    """What a proxy, a trace or a browser adds is not what was asked."""
    event = events.with_header(events.load(V2), "x-amzn-trace-id", "Root=another")
    event["cookies"] = ["session=1"]

    assert_same_as_v2(event, "")


@pytest.mark.parametrize(
    "body",
    [
        "[" * 10_000 + "]" * 10_000,
        '{"a":' * 10_000 + "1" + "}" * 10_000,
        json.dumps({"text": "x" * 6_000_000}),
        "[" + "1" * 5_000 + "]",
        "x" * 6_000_000,
        b"\xff" * 4_500_000,
        '{"a":"\ud800"}',
    ],
    ids=["deep", "deep objects", "6 MB of JSON", "long number", "6 MB", "bytes", "surrogate"],
)
def test_every_body_has_a_fingerprint(body: str | bytes) -> None:
    """A body that is large, deep, or no JSON at all has a fingerprint like any other."""
    assert sent(body).startswith("f1:")


def test_a_callable_selects_what_counts() -> None:
    """With a callable, what it returns stands in place of the body, and only that."""

    def asked(body: str) -> str:
        request = read_request(events.with_body(events.load(V2), body))
        return fingerprints(request, lambda given: json.loads(given.body)["amount"]).current

    assert asked('{"amount":1,"sent_at":"now"}') == asked('{"sent_at":"later","amount":1.0}')
    assert asked('{"amount":1}') != asked('{"amount":2}')
    assert asked('{"amount":9007199254740993}') != asked('{"amount":9007199254740992}')


@pytest.mark.parametrize("value", [memoryview(b"1"), range(2), object()], ids=stable_repr)
def test_a_callable_that_selects_no_json_is_a_mistake(value: Any) -> None:
    """What has no JSON form cannot be compared; the message says what to select."""
    request = read_request(events.load(V2))

    with pytest.raises(ConfigurationError, match="fingerprint: must select a JSON value"):
        fingerprints(request, lambda _: value)


def _nested(times: int) -> Any:
    deep: list[Any] = []
    for _ in range(times):
        deep = [deep]
    return deep


@pytest.mark.parametrize(
    "value",
    [
        _nested(100_000),
        [Decimal(1), _nested(200)],
        {"amount": Decimal("NaN")},
        [Decimal(1), "\ud800"],
        [Decimal(1), float("inf")],
        {"at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))},
        10**5_000,
    ],
    ids=["deep", "deep beside a Decimal", "NaN", "surrogate", "infinite", "year 10000", "digits"],
)
def test_a_selected_value_without_a_form_is_a_refused_request(
    value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Its type is right, so that the client's data is the cause: 400, as where the callable raises.

    Red when a client's data is an error of the service.
    """
    with pytest.raises(RequestRefused) as refused:
        fingerprints(read_request(events.load(V2)), lambda _: value)
    assert refused.value.code == "request-invalid"
    assert "raised UnfitValue" in caplog.text
    with pytest.raises(ConfigurationError, match="must select a JSON value"):
        selected_fingerprint(value)
