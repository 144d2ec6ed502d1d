"""Coverage-guided fuzzing of the parsers: `make fuzz MINUTES=10`.

An input that reaches a new pair of lines in the parsers is kept, and later inputs are made of those
kept. hypothesis, whose strategies draw from forms that somebody thought of, does not do that.

An input that breaks a parser's promise is printed. Add it to FOUND, with the parser's name: a test
then plays it for ever.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rfc8785

import oncekey
from oncekey.clock import SystemClock
from oncekey.encoding.canonical import NotCanonical, canonical_json
from oncekey.encoding.refusals import Unreadable
from oncekey.encoding.results import decode, encode
from oncekey.errors import EnvelopeUnreadable, RequestRefused, StoreError
from oncekey.http.event import HttpRequest, Shape, read_request
from oncekey.http.key import first_sent_ms, idempotency_key
from oncekey.outbox.envelope import sealed, unsealed
from oncekey.record.stored_answer import Place, StoredRef
from oncekey.store.dynamodb.codec import attribute_values, record_from_item
from oncekey.testing.contract_samples import message as sample_message
from oncekey.value import replace
from oncekey.webhooks import GitHubSignature, ShopifySignature, StandardWebhooks, StripeSignature
from tests.support.events import load
from tests.support.records import STEPS, record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

_PARSERS = str(Path(oncekey.__file__).parent)
_SIGNED_BY = {
    StripeSignature: ("stripe-signature",),
    GitHubSignature: ("x-hub-signature-256", "x-github-delivery"),
    ShopifySignature: ("x-shopify-hmac-sha256", "x-shopify-webhook-id"),
    StandardWebhooks: ("webhook-id", "webhook-timestamp", "webhook-signature"),
}
_TOKENS = (
    *('"', "\\", ",", ";", "=", ":", ".", "{", "}", "[", "]", "null", "true", "-0", "1e400"),
    *(
        "0",
        "9" * 20,
        "1.0",
        "\\ud800",
        "\\u0000",
        "\ud800",
        "é",
        "\x00",
        "\n",
        " ",
        '{"$":"',
        "%ff",
    ),
    *('"S"', '"N"', '"M"', '"B"', "t=", "v1=", "v1,", "sha256=", "GMT", "NaN", "Infinity"),
)
# What a part of a document is replaced by; the first are names, too.
_VALUES: tuple[Any, ...] = (
    *("", "$", "S", "é", None, True, False, 0, -1, 2**53, 10**400, 1.5, 1e300),
    *([], {}, [[]], {"S": "x"}, {"N": "1"}, {"$": "x"}, "x" * 300, "\ud800"),
)


def a_key(text: str) -> None:
    """A key is refused, or is one that its quoted form is, too."""
    with suppress(RequestRefused):
        key = idempotency_key([text], min_length=1)
        quoted = key.replace("\\", "\\\\").replace('"', '\\"')
        assert idempotency_key([f'"{quoted}"'], min_length=1) == key


def a_date(text: str) -> None:
    """A date of first sending is refused or is a time."""
    with suppress(RequestRefused):
        assert isinstance(first_sent_ms([text]), int | None)


def canonical(text: str) -> None:
    """A document has no canonical form, or the one that another implementation makes of it."""
    with suppress(NotCanonical):
        form = canonical_json(text.encode("utf-8", "surrogatepass"))
        assert canonical_json(form) == form
        # Whole numbers beyond 2^53 are floats there, and an error for the other one.
        value = json.loads(form, parse_int=_number)
        assert rfc8785.dumps(value) == form


def _number(digits: str) -> int | float:
    return int(digits) if abs(int(digits)) < 2**53 else float(digits)


def a_result(text: str) -> None:
    """A stored result is unreadable, or a value whose text is read as an equal one."""
    with suppress(Unreadable):
        value = decode(text)
        again = decode(encode(value))
        assert again == value or again != again or repr(again) == repr(value)


def a_message(text: str) -> None:
    """A message is unreadable, or is sealed as it was."""
    with suppress(EnvelopeUnreadable, UnicodeEncodeError):
        message = unsealed(text)
        assert unsealed(sealed(message)) == message


def an_event(text: str) -> None:
    """An event is no HTTP request, or one whose parts can be asked for."""
    event = _document(text)
    try:
        request = read_request(event)
    except TypeError as error:
        if not str(error).startswith("oncekey: "):
            raise
        return
    with suppress(RequestRefused):
        assert isinstance(request.body, bytes)
    assert isinstance(f"{request.content_type}{request.served_path}{request.media_type}", str)


def an_item(text: str) -> None:
    """An item is unreadable, or a record whose own item is read as it was stored.

    What is 0 or empty is not stored, and is then None.
    """
    item = _document(text)
    if not _is_held(item):
        return
    with suppress(StoreError):
        stored = attribute_values(record_from_item(item))
        assert attribute_values(record_from_item(stored)) == stored


def _is_held(item: Any) -> bool:
    """Whether DynamoDB can hold it: nothing else is ever read."""
    return isinstance(item, dict) and all(map(_is_value, item.values()))


def _is_value(value: Any) -> bool:
    if not (isinstance(value, dict) and len(value) == 1):
        return False
    ((kind, held),) = value.items()
    match kind:
        case "S" | "N":
            return isinstance(held, str)
        case "M":
            return _is_held(held)
        case "BOOL" | "NULL":
            return isinstance(held, bool)
        case _:
            return False


def a_signature(text: str) -> None:
    """The headers of a signature are refused, or state digests."""
    lines = text.split("\n")
    for scheme, names in _SIGNED_BY.items():
        request = HttpRequest(
            shape=Shape.PAYLOAD_2,
            method="POST",
            path="/",
            raw_query="",
            lines={name: [line] for name, line in zip(names, lines, strict=False)},
            text="{}",
            is_base64=False,
            context={},
        )
        with suppress(RequestRefused):
            stated = scheme().stated(request, b"{}")
            assert all(isinstance(digest, bytes) for digest in stated.digests)
        with suppress(RequestRefused):
            assert scheme().event_id(request, text.encode("utf-8", "replace"))


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_LARGE = StoredRef(place=Place.OBJECT, name="outbox/1/2", digest="0" * 64)
_WHOLE = attribute_values(record(steps=STEPS["finished and started"]))
TARGETS: dict[str, tuple[Callable[[str], None], tuple[str, ...]]] = {
    "a key": (a_key, ("a-key-of-sixteen", r'"quoted \" and \\ key"')),
    "a date": (a_date, ("Fri, 27 Nov 2026 10:00:00 GMT",)),
    "canonical": (canonical, ('{"b":[1.0,1e21,-0.0,"\\u20ac"],"a":null}', "[1e-7,5e-324]")),
    "a result": (
        a_result,
        (encode([1, {"a": b"x", "b": (1, 2)}, {3}]), encode({"$": 1, "d": 1.5, "n": None})),
    ),
    "a message": (
        a_message,
        tuple(
            sealed(replace(sample_message("1"), **changes))
            for changes in ({}, {"payload_ref": _LARGE}, {"traceparent": "00-1-2-01"})
        ),
    ),
    "an event": (
        an_event,
        tuple(json.dumps(load(name)) for name in ("apigw_http_v2_post", "apigw_rest_v1_post")),
    ),
    "an item": (an_item, (json.dumps(_WHOLE, default=str),)),
    "a signature": (
        a_signature,
        (f"t=1,v1={'0' * 64}\n1\n", f"sha256={'0' * 64}\nid", f"id\n1\nv1,{'A' * 43}="),
    ),
}
# Inputs that broke a promise once.
FOUND: tuple[tuple[str, str], ...] = ()


class Guided:
    """One parser's inputs, and the pairs of lines that they have reached."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name = name
        self.runs = 0
        self.reached: set[tuple[Any, int, int]] = set()
        self.corpus: list[str] = []
        self._promise, seeds = TARGETS[name]
        self._chance = chance
        for seed in seeds:
            if not self.play(seed):
                self.corpus.append(seed)

    def play(self, text: str) -> bool:
        """Whether `text` reaches a new pair of lines; it is then kept.

        Raises whatever breaks the promise.
        """
        self.runs += 1
        reached: set[tuple[Any, int, int]] = set()

        def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
            code = frame.f_code
            if not code.co_filename.startswith(_PARSERS):
                return None
            last = 0

            def line(frame: FrameType, event: str, _argument: Any) -> Any:
                nonlocal last
                if event == "line":
                    reached.add((code, last, frame.f_lineno))
                    last = frame.f_lineno
                return line

            return line

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            self._promise(text)
        finally:
            sys.settrace(before)
        is_new = not reached <= self.reached
        if is_new:
            self.reached |= reached
            self.corpus.append(text)
        return is_new

    def step(self) -> None:
        """Play one input that is made of those kept."""
        text = self.made()
        try:
            self.play(text)
        except Exception as error:
            raise Broken(self.name, text) from error

    def made(self) -> str:
        """A kept input with a few changes; the last kept ones are taken more often.

        Of a JSON document, mostly the parts are changed: a change of its text seldom leaves one.
        """
        pick = self._chance
        text = pick.choice(self.corpus[-20:] if pick.random() < 0.5 else self.corpus)
        document = _document(text)
        if isinstance(document, dict | list) and pick.random() < 0.75:
            document = [document]
            for _ in range(pick.randint(1, 3)):
                self._change(document)
            return json.dumps(document[0] if document else None)[:20_000]
        for _ in range(pick.randint(1, 4)):
            start = pick.randint(0, len(text))
            end = min(len(text), start + pick.choice((0, 1, 1, 2, 8, 40)))
            match pick.randrange(4):
                case 0:
                    middle = pick.choice(_TOKENS)
                case 1:
                    middle = chr(pick.choice((pick.randrange(128), pick.randrange(0x11_0000))))
                case 2:
                    other = pick.choice(self.corpus)
                    at = pick.randint(0, len(other))
                    middle = other[at : at + pick.randint(0, 60)]
                case _:
                    middle = text[start:end] * pick.choice((0, 2, 3))
            text = text[:start] + middle + text[end:]
        return text[:20_000]

    def _change(self, document: list[Any]) -> None:
        """Replace, remove, rename or double one part of it."""
        pick = self._chance
        parts = [*_parts(document)]
        if not parts:
            return
        whole, at = pick.choice(parts)
        match pick.randrange(5):
            case 0:
                del whole[at]
            case 1:
                other, place = pick.choice(parts)
                whole[at] = deepcopy(other[place])
            case 2 if isinstance(whole, dict):
                whole[pick.choice([*whole, *_VALUES[:4]])] = whole.pop(at)
            case 3 if isinstance(whole[at], str):
                whole[at] = whole[at][: pick.randint(0, len(whole[at]))] + pick.choice(_TOKENS)
            case _:
                whole[at] = deepcopy(pick.choice(_VALUES))


def _parts(whole: Any) -> Iterator[tuple[Any, Any]]:
    """Where each part of a document is."""
    places = whole.items() if isinstance(whole, dict) else enumerate(whole)
    for at, part in places:
        yield whole, at
        if isinstance(part, dict | list):
            yield from _parts(part)


class Broken(Exception):
    """An input broke the promise of a parser."""

    def __str__(self) -> str:
        name, text = self.args
        return f"({name!r}, {text!r}) broke its promise: {self.__cause__!r}"


def play(names: Iterable[str], *, seed: int, until: Callable[[int], bool]) -> list[Guided]:
    """Play the parsers in turns, until `until` says so of the number of turns."""
    chance = random.Random(seed)  # noqa: S311 -- no secret
    guided = [Guided(name, chance) for name in names]
    turns = 0
    while not until(turns):
        for each in guided:
            each.step()
        turns += 1
    return guided


def main() -> None:
    """Play for so many minutes, and say what was reached."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=SystemClock().now_ms() % 1_000_000)
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)  # noqa: T201 -- what it is for
    end = time.monotonic() + 60 * given.minutes
    try:
        guided = play(TARGETS, seed=given.seed, until=lambda _: time.monotonic() > end)
    except Broken as broken:
        sys.exit(f"add to FOUND in {__file__}: {broken}")
    for each in guided:
        reached = f"{len(each.reached)} pairs of lines, {len(each.corpus)} inputs kept"
        print(f"{each.name}: {each.runs} inputs, {reached}")  # noqa: T201


if __name__ == "__main__":
    main()
