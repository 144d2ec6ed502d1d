"""Whatever a handler answers, a repeat gets the same, byte for byte: answers drawn by chance."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncekey.http.headers import for_replay
from oncekey.store.dynamodb.codec import attribute_values, record_from_item
from oncekey.testing.memory import MemoryStore
from tests.support.events import load
from tests.support.proof import with_largest_in_proof
from tests.support.protected import SHAPES, Answer, Protected

if TYPE_CHECKING:
    from oncekey.record.transitions import Transition
    from oncekey.store.store import Refused, Written

OWN_HEADERS = {"idempotency-key", "idempotency-expires", "idempotent-replayed"}

# Lone surrogates too: Python's JSON makes and reads them.
TEXT = st.text(st.characters(), max_size=60) | st.text(max_size=4).map(lambda text: text * 400)
# What a header can have.
LINES = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=60)
TOKENS = st.text("!#$%&'*+-.^_`|~09azAZ", min_size=1, max_size=12)
NAMES = st.one_of(
    st.sampled_from(
        [
            "Content-Type",
            "content-type",
            "CONTENT-TYPE",
            "Location",
            "ETag",
            "X-Empty",
        ]
    ),
    st.sampled_from(["Idempotency-Key", "IDEMPOTENT-REPLAYED", "idempotency-expires"]),
    # A name of one exchange, as `te`, is not repeated.
    TOKENS.filter(lambda name: for_replay({"headers": {name: ""}}, {})["headers"]),
)
VALUES = LINES | st.integers() | st.booleans()
BODIES = (
    TEXT
    | st.binary(max_size=400).map(lambda data: data.hex())
    | st.recursive(
        st.none() | st.booleans() | st.integers() | TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        max_leaves=6,
    ).map(json.dumps)
)
STATUSES = st.integers(100, 599)


def answers(shape: str) -> st.SearchStrategy[Any]:
    """Answers as handlers behind this shape give them."""
    optional: dict[str, Any] = {
        "headers": st.none() | st.dictionaries(NAMES, VALUES, max_size=5),
        "body": st.none() | BODIES,
        "isBase64Encoded": st.booleans(),
    }
    if "v2" in shape or "function_url" in shape:
        optional["cookies"] = st.lists(LINES, max_size=3)
    else:
        optional["multiValueHeaders"] = st.none() | st.dictionaries(
            NAMES, st.lists(LINES, max_size=3), max_size=4
        )
    if "alb" in shape:
        optional["statusDescription"] = TEXT
    statuses = STATUSES | (STATUSES.map(str) if "v2" in shape else st.nothing())
    return st.fixed_dictionaries({"statusCode": statuses}, optional=optional)


def seen_by_the_client(answer: Answer) -> bytes:
    """Everything but the layer's own headers, as bytes; which of the two kinds of headers a name
    stands in counts, and so does the order.
    """
    shown = copy.deepcopy(answer)
    for member in ("headers", "multiValueHeaders"):
        headers = shown.get(member)
        if headers is not None:
            shown[member] = {k: v for k, v in headers.items() if k.lower() not in OWN_HEADERS}
    return json.dumps(shown).encode("ascii")


class ItemStore(MemoryStore):
    """A store in memory whose records go through items of DynamoDB, as text in UTF-8."""

    def write(self, transition: Transition) -> Written | Refused:
        """As an item, and back."""
        answer = super().write(transition)
        item = attribute_values(self.records[transition.pk])
        for value in item.values():
            if "S" in value:
                value["S"] = value["S"].encode().decode()
        self.records[transition.pk] = record_from_item(item)
        return answer


@pytest.mark.case(26)
@pytest.mark.parametrize("shape", with_largest_in_proof(SHAPES, *SHAPES[2:]))
@settings(max_examples=200, deadline=None, database=None)
@given(data=st.data())
def test_every_replay_is_what_the_client_got_first(shape: str, data: st.DataObject) -> None:
    """Any status, headers of any name and case, repeated ones, cookies, base64, any text: the first
    answer is what the handler said, and every replay is the first answer.

    Red when a field, a repeated header, a letter case or a letter is lost on either way.
    """
    answer = data.draw(answers(shape))
    event = load(shape)
    cookies = {"Set-Cookie": True}
    service = Protected(store=ItemStore(), store_when="begun", replay_headers=cookies)
    service.then = lambda _event, _op: copy.deepcopy(answer)

    first = service.send(event)
    replays = [service.send(event) for _ in range(2)]

    assert len(service.runs) == 1
    for replay in replays:
        assert seen_by_the_client(replay) == seen_by_the_client(first)
        assert "true" in str(own_headers(replay)["idempotent-replayed"])
    assert "idempotent-replayed" not in own_headers(first)
    if shape != "alb_multi_value_post":
        # There the handler's headers move to where a load balancer looks for them.
        assert seen_by_the_client({"headers": {}, **answer, **_no_null(answer)}) == (
            seen_by_the_client(in_order(first, answer))
        )
    else:
        assert moved(answer) == json.loads(seen_by_the_client(first))


def own_headers(answer: Answer) -> dict[str, Any]:
    """The layer's own headers, wherever they stand."""
    found: dict[str, Any] = {}
    for member in ("headers", "multiValueHeaders"):
        for name, value in (answer.get(member) or {}).items():
            if name.lower() in OWN_HEADERS:
                found[name.lower()] = value
    return found


def in_order(first: Answer, answer: Answer) -> Answer:
    """The members of `first` in the order in which the handler gave them."""
    names = ["headers", *[name for name in answer if name != "headers"]]
    assert set(first) == set(names)
    return {name: first[name] for name in names}


def _no_null(answer: Answer) -> Answer:
    return {} if answer.get("headers") else {"headers": {}}


def moved(answer: Answer) -> Any:
    """What a load balancer that reads multi-value headers is to get of `answer`.

    A name that has values among the multi-value headers is not said twice, in any letter case.
    """
    several = answer.get("multiValueHeaders") or {}
    said = {name.lower() for name, values in several.items() if values}
    plain = {
        name: [str(value)]
        for name, value in (answer.get("headers") or {}).items()
        if name.lower() not in said
    }
    many = plain | several
    rest = {name: value for name, value in answer.items() if name != "headers"}
    return json.loads(seen_by_the_client(rest | {"multiValueHeaders": many}))
