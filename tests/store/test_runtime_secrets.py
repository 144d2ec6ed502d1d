"""Secrets that are read at run time: which one a variable names, how long, and if it cannot be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from oncekey import idempotent, idempotent_function, single_tenant
from oncekey.clock import SystemClock
from oncekey.errors import ConfigurationError, StoreError, StoreUnavailable
from oncekey.store import secrets_manager
from oncekey.store.secret_words import secret_words
from oncekey.testing.memory import MemoryStore
from oncekey.webhooks import StripeSignature
from oncekey.webhooks.signatures import keys_of
from tests.support.events import load
from tests.support.protected import problem_of

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "oncekey/test/webhook"
OLD, NEW = "whsec_older_0123456789abc", "whsec_newer_0123456789abc"
VARIABLE = "ONCEKEY_WEBHOOK_SECRET"
MINUTE_MS = 60_000


class Place:
    """Secrets Manager, the time, and how often it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = 1_796_083_200_000
        self.asked = 0
        self.is_down = False
        self._client: Any = boto3.client("secretsmanager")
        self._client.create_secret(Name=NAME, SecretString=OLD)
        read = secrets_manager._read

        def counted(name: str, connection: tuple[str, ...]) -> str:
            self.asked += 1
            if self.is_down:
                raise ConnectionError
            return read(name, connection)

        monkeypatch.setattr(secrets_manager, "_read", counted)
        monkeypatch.setattr(SystemClock, "now_ms", lambda _: self.now_ms)

    def rotate(self, text: str) -> None:
        """Give the secret another text."""
        self._client.put_secret_value(SecretId=NAME, SecretString=text)

    def later(self, minutes: float) -> None:
        """Let time pass."""
        self.now_ms += round(minutes * MINUTE_MS)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A secret that the variable names, and nothing read of it yet."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv(f"{VARIABLE}_ARN", NAME)
    secrets_manager.forget()
    with mock_aws():
        yield Place(monkeypatch)
    secrets_manager.forget()


@pytest.mark.fault("K14.8")
def test_a_secret_is_read_at_run_time_and_its_rotation_is_seen(place: Place) -> None:
    """What a webhook is signed with is read from the secret that its variable names: once for some
    minutes, and two secrets count while they rotate.

    Red when a rotated secret is known only after a deployment, or the old one counts for ever.
    """

    def keys() -> list[bytes]:
        return keys_of(StripeSignature(), None, "here")

    assert keys() == [OLD.encode()]
    place.rotate(f"{NEW}\n{OLD}")
    assert (keys(), place.asked) == ([OLD.encode()], 1)

    place.later(5)
    assert keys() == [NEW.encode(), OLD.encode()]
    place.rotate(NEW)
    place.later(5)
    assert (keys(), place.asked) == ([NEW.encode()], 3)


@pytest.mark.fault("K14.8")
def test_what_was_read_last_serves_while_nobody_answers(place: Place) -> None:
    """During an outage the secret that is known stays, for an hour at most, and is asked for again
    every ten seconds; without one nothing is known.

    Red when an outage of minutes refuses every webhook, or a revoked secret outlives it.
    """
    place.is_down = True
    with pytest.raises(StoreError):
        secret_words(VARIABLE)
    place.is_down = False
    assert secret_words(VARIABLE) == [OLD.encode()]
    place.is_down = True
    for minutes in (6, 0.1, 0.1):
        place.later(minutes)
        assert secret_words(VARIABLE) == [OLD.encode()]
    assert place.asked == 4

    place.later(55)
    with pytest.raises(StoreError):
        secret_words(VARIABLE)


def test_a_clock_that_is_set_back_keeps_no_secret(place: Place) -> None:
    """A secret that was read while the clock was a day ahead is read again; during an outage it
    serves for an hour from then on.

    Red when a revoked secret counts until the right time reaches the wrong one.
    """
    place.later(24 * 60)
    assert secret_words(VARIABLE) == [OLD.encode()]
    place.rotate(NEW)
    place.later(-24 * 60)
    place.is_down = True
    for minutes in (0, 0.1, 59):
        place.later(minutes)
        assert secret_words(VARIABLE) == [OLD.encode()]
    assert place.asked == 3

    place.later(2)
    with pytest.raises(StoreError):
        secret_words(VARIABLE)
    place.is_down = False
    assert secret_words(VARIABLE) == [NEW.encode()]


@pytest.mark.fault("K14.8")
def test_a_secret_that_cannot_be_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON in place of the value, and two places at once, are refused without repeating them.

    Red when a JSON text is taken for a secret, or one of two places silently wins.
    """
    place.rotate(json.dumps({"secret": OLD}))
    with pytest.raises(ConfigurationError, match=f"{VARIABLE}_ARN: the secret .* is JSON") as told:
        secret_words(VARIABLE)
    assert OLD not in str(told.value)

    monkeypatch.setenv(VARIABLE, NEW)
    with pytest.raises(ConfigurationError, match="leave one of the two out"):
        secret_words(VARIABLE)


@pytest.mark.fault("K14.8")
def test_without_its_secrets_no_fingerprint_is_made(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the secrets of fingerprints cannot be read, a request is told 503 and a function
    raises `StoreUnavailable`; nothing runs. With them, both do.

    Red when an outage of the secrets runs a handler, or raises something that nobody expects.
    """
    monkeypatch.setenv("ONCEKEY_FINGERPRINT_SECRETS_ARN", NAME)
    store, runs = MemoryStore(), list[str]()

    @idempotent(operation="POST /payments", tenant=single_tenant(), store=store)
    def handler(event: Any, context: object) -> dict[str, Any]:
        runs.append("handler")
        return {"statusCode": 201}

    @idempotent_function(
        operation="work", key=lambda: "key-1", tenant=lambda: "tenant-1", store=store
    )
    def work() -> None:
        runs.append("work")

    event = load("apigw_http_v2_post")
    place.is_down = True
    answer = handler(event, None)
    assert problem_of(answer) == (503, "store-unavailable", True)
    assert "Retry-After" in answer["headers"]
    with pytest.raises(StoreUnavailable):
        work()
    assert runs == []

    place.is_down = False
    assert handler(event, None)["statusCode"] == 201
    work()
    assert runs == ["handler", "work"]
