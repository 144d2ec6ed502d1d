"""Requests and calls that end in every way that there is, with contents that can be told."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from oncekey import NotExecuted
from oncekey.errors import CallNotAnswered, StoreError
from oncekey.record.transitions import Reserve
from oncekey.testing.memory import MemoryStore
from tests.support.events import load, with_body, with_header, with_key
from tests.support.function_calls import Calls
from tests.support.large_answers import LARGE, TOO_LARGE_FOR_AN_ITEM
from tests.support.protected import Protected
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = "the-key-of-a-client-0123456789"
BODY = "what-the-client-sent"
ANSWER = "what-the-client-is-told"
TEXT = "what-an-error-says"
SECRET = "the-secret-of-the-fingerprints"
CREDENTIAL = "the-token-of-the-client"
CONTENTS = [KEY, BODY, ANSWER, TEXT, SECRET, CREDENTIAL]
CONTENTS += [LARGE[:40], TOO_LARGE_FOR_AN_ITEM[:40]]
POST = with_header(
    with_key(with_body(load("apigw_http_v2_post"), f'{{"note":"{BODY}"}}'), KEY),
    "authorization",
    f"Bearer {CREDENTIAL}",
)
OTHER = with_body(POST, f'{{"note":"{BODY}, changed"}}')
RECORD = {"id": KEY, "note": BODY}
AWAY = StoreError("away", transient=True)


class Faulty(MemoryStore):
    """A store in which all reserves, or all other writes, or reads of kept answers, fail."""

    def __init__(self) -> None:
        super().__init__()
        self.reserves = self.endings = self.answers = True

    def write(self, transition: Any) -> Any:
        """Write, or fail."""
        if not (self.reserves if isinstance(transition, Reserve) else self.endings):
            raise AWAY
        return super().write(transition)

    def fetch(self, at: Any) -> Any:
        """Fetch, or fail."""
        if not self.answers:
            raise AWAY
        return super().fetch(at)


class Http:
    """Requests to a protected handler."""

    def __init__(self, **options: Any) -> None:
        self.store = Faulty()
        self.service = Protected(store=self.store, fingerprint_secrets=[SECRET.encode()], **options)
        self.clock = self.service.clock
        self.gives(ANSWER)

    def gives(self, text: str) -> None:
        """From now on the handler answers so."""
        self.then(lambda: {"statusCode": 201, "body": text})

    def then(self, end: Callable[[], Any]) -> None:
        """From now on the handler ends so."""
        self.service.then = lambda _event, _op: end()

    def send(self, *, changed: bool = False) -> None:
        """One request; what its handler raises is its own."""
        with contextlib.suppress(ValueError, TypeError):
            self.service.send(OTHER if changed else POST)


class Function:
    """Calls of a protected function."""

    def __init__(self, **options: Any) -> None:
        self.store = Faulty()
        self.calls = Calls(
            store=self.store,
            fingerprint=lambda record: record["note"],
            fingerprint_secrets=[SECRET.encode()],
            **options,
        )
        self.clock = self.calls.clock
        self.gives(ANSWER)

    def gives(self, text: str) -> None:
        """From now on the function returns this."""
        self.then(lambda: {"said": text})

    def then(self, end: Callable[[], Any]) -> None:
        """From now on the function ends so."""
        self.calls.then = lambda _record: end()

    def send(self, *, changed: bool = False) -> None:
        """One call; what it raises is for its caller."""
        with contextlib.suppress(ValueError, TypeError, NotExecuted, CallNotAnswered):
            self.calls.call(RECORD | {"note": BODY + ", changed"} if changed else dict(RECORD))


Kind = type[Http] | type[Function]


def raises(error: Exception) -> Callable[[], Any]:
    """An end with `error`."""

    def end() -> Any:
        raise error

    return end


def created_and_replayed(kind: Kind) -> None:
    """A first answer and its replay."""
    one = kind()
    one.send()
    one.send()


def refused(kind: Kind) -> None:
    """The key with another request."""
    one = kind()
    one.send()
    one.send(changed=True)


def running(kind: Kind) -> None:
    """A repeat while the first still runs."""
    one = kind()

    def end() -> Any:
        one.gives(ANSWER)
        one.send()
        return {"statusCode": 201, "body": ANSWER}

    one.then(end)
    one.send()


def unknown(kind: Kind) -> None:
    """An attempt that raised, and a repeat."""
    one = kind()
    one.then(raises(ValueError(TEXT)))
    one.send()
    one.send()


def not_executed(kind: Kind) -> None:
    """An attempt that proves that it did nothing, and one by its author's rule."""
    one = kind(not_executed=ValueError)
    one.then(raises(NotExecuted(TEXT)))
    one.send()
    one.then(raises(ValueError(TEXT)))
    one.send()


def rule_that_fails(kind: Kind) -> None:
    """The author's rule raises with what it was asked about."""

    def rule(error: BaseException) -> bool:
        raise LookupError(str(error))

    one = kind(not_executed=rule)
    one.then(raises(ValueError(TEXT)))
    one.send()


def store_away_before(kind: Kind) -> None:
    """The key cannot be reserved."""
    one = kind()
    one.store.reserves = False
    one.send()


def store_away_after(kind: Kind) -> None:
    """The answer cannot be recorded; and then the lease is over."""
    one = kind()
    one.store.endings = False
    one.send()
    one.store.endings = True
    one.clock.advance(3_600_000)
    one.send()


def large(kind: Kind) -> None:
    """An answer that is kept beside its record: replayed, away, damaged, and missing."""
    one = kind()
    one.gives(LARGE)
    one.send()
    one.send()
    one.store.answers = False
    one.send()
    one.store.answers = True
    for name in one.store.blobs:
        one.store.blobs[name] = b"damaged"
    one.send()
    one.store.blobs.clear()
    one.send()


def not_to_be_kept(kind: Kind) -> None:
    """A result that has no stored form, and a repeat."""
    one = kind()
    one.then(lambda: {"statusCode": 201, "body": {"said": object()}, "note": ANSWER})
    one.send()
    one.send()


def damaged(kind: Kind) -> None:
    """A stored answer that cannot be read."""
    one = kind()
    one.send()
    for pk, record in one.store.records.items():
        one.store.records[pk] = replace(record, response=f'{{"{ANSWER}')
    one.send()


def ownership_lost(kind: Kind) -> None:
    """An attempt whose record was completed by somebody else while it ran."""
    one = kind()

    def end() -> Any:
        for pk, record in one.store.records.items():
            one.store.records[pk] = replace(record, operation_id="another", owner="another")
        return {"statusCode": 201, "body": ANSWER}

    one.then(end)
    one.send()


def repeatable_and_dead(kind: Kind) -> None:
    """An attempt that died, and its successor."""
    one = kind(effects="repeatable")
    one.store.endings = False
    one.send()
    one.store.endings = True
    one.clock.advance(3_600_000)
    one.send()


# Each outcome, and the events that are logged of it at the least.
OUTCOMES: dict[str, tuple[Callable[[Kind], None], set[str]]] = {
    "created and replayed": (created_and_replayed, {"reserved", "replayed"}),
    "refused": (refused, {"refused"}),
    "running": (running, {"refused"}),
    "unknown": (unknown, {"outcome-unknown", "refused"}),
    "not executed": (not_executed, {"not-executed"}),
    "rule that fails": (rule_that_fails, {"outcome-unknown"}),
    "store away before": (store_away_before, {"store-unavailable"}),
    "store away after": (store_away_after, {"answer-not-recorded", "lease-expired"}),
    "large": (large, {"replayed", "store-unavailable", "answer-unavailable"}),
    "not to be kept": (not_to_be_kept, {"answer-unavailable"}),
    "damaged": (damaged, {"reserved"}),
    "ownership lost": (ownership_lost, {"ownership-lost"}),
    "repeatable and dead": (repeatable_and_dead, {"lease-expired", "reserved"}),
}
