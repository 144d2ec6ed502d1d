"""Events that no gateway sends, and requests that any client may send."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncekey import jwt_claim, single_tenant
from oncekey.http.event import read_request
from tests.support.events import load, with_body, with_header, with_route
from tests.support.mangled import ANY_TEXT, JUNK, mangled
from tests.support.protected import SHAPES, Protected, problem_of
from tests.support.steps import FaultyStore

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "queued": {"mode": "queued"},
    "selecting": {"fingerprint": lambda request: json.loads(request.body)["amount"]},
    "completing": {"effects": "recorded", "on_abandoned": "complete"},
    "by claims": {"tenant": jwt_claim("tenant_id"), "principal": jwt_claim("sub")},
}
EVERY_OPTION = pytest.mark.parametrize("name", OPTIONS)
MANY = settings(max_examples=30, suppress_health_check=list(HealthCheck))


def check_answer(service: Protected, event: dict[str, Any]) -> int:
    """The status of the answer, which is the handler's own, a 202 or a well-formed problem.

    A handler ran only under a record, and no record is left by what was refused.
    """
    answer = service.send(event)

    json.dumps(answer)
    status = int(answer["statusCode"])
    if status in {201, 202}:
        assert len(service.store.records) == 1
        assert len(service.runs) == (status == 201)
    else:
        assert problem_of(answer)[0] in {400, 403, 405}
        assert (service.runs, service.store.records) == ([], {})
    return status


@EVERY_OPTION
@MANY
@given(data=st.data(), shape=st.sampled_from(SHAPES))
def test_a_mangled_event_is_answered_or_is_no_http_request(
    name: str, data: st.DataObject, shape: str
) -> None:
    """Whatever members of an event are dropped, renamed, exchanged or of other types: there is an
    answer, or a `TypeError` that says which events can be read, and nothing was done.

    Red when a member of another type raises an error of its own.
    """
    service = Protected(store=FaultyStore(), **{"tenant": single_tenant(), **OPTIONS[name]})

    event = data.draw(mangled(load(shape)))
    try:
        read_request(event)
    except TypeError:
        with pytest.raises(TypeError, match="^oncekey: "):
            service.send(event)
        assert (service.runs, service.store.records) == ([], {})
    else:
        check_answer(service, event)


@EVERY_OPTION
@MANY
@given(data=st.data(), shape=st.sampled_from(SHAPES))
def test_whatever_a_client_sends_is_answered(name: str, data: st.DataObject, shape: str) -> None:
    """No header, path, query or body of a client raises: each request gets an answer.

    Red when a text that some client can send is an exception.
    """
    service = Protected(store=FaultyStore(), **{"tenant": single_tenant(), **OPTIONS[name]})
    draw = data.draw
    event = with_route(load(shape), draw(st.sampled_from(["POST", "PATCH"])), draw(ANY_TEXT))
    for header in draw(st.sets(st.sampled_from(HEADERS), max_size=3)):
        event = with_header(event, header, *draw(st.lists(ANY_TEXT | KEYS, max_size=3)))
    if draw(st.booleans()):
        event["rawQueryString"] = draw(ANY_TEXT)
    event = with_body(event, draw(BODIES))
    if draw(st.booleans()):
        event["isBase64Encoded"] = True

    assert check_answer(service, event) < 500


HEADERS = ["idempotency-key", "content-type", "repeatability-first-sent", "x-other", "\x00"]
KEYS = st.sampled_from(
    [
        *(
            "k" * 16,
            '"quoted key 1234"',
            '"a\\',
            "k" * 256,
            "a,b" * 6,
            "a;b" * 6,
            '"' * 20,
            "\ud800" * 16,
        )
    ]
)
BODIES = st.one_of(
    st.none(),
    ANY_TEXT,
    st.binary(max_size=20),
    JUNK.map(json.dumps),
    JUNK.map(lambda junk: json.dumps({"amount": junk})),
    st.sampled_from(["[" * 100_000, '{"amount":' * 2_000, "9" * 5_000, '{"amount":1e999}']),
)
