"""Webhooks that are set up wrongly, switched off, or sent nonsense."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncekey import (
    ConfigurationError,
    api_key_id,
    authorizer_value,
    iam_principal,
    jwt_claim,
    single_tenant,
)
from oncekey.testing import ManualClock
from oncekey.webhooks import (
    GitHubSignature,
    Publish,
    ShopifySignature,
    StandardWebhooks,
    StripeSignature,
    webhook,
)
from tests.support.hooks import TOPIC, Hook, event_body, status_of
from tests.support.protected import problem_of
from tests.support.webhooks import NOW_S, SENDERS, SHAPES, event_with

if TYPE_CHECKING:
    from typing import NoReturn

    from oncekey.webhooks import Delivery

EVERY_SENDER = pytest.mark.parametrize("sender", SENDERS)
GOOD: dict[str, Any] = {
    "operation": "POST /webhooks",
    "scheme": StripeSignature(),
    "tenant": single_tenant(),
}


def publish(delivery: Delivery) -> Publish:
    """Something."""
    return Publish(TOPIC, delivery.id)


async def never_awaited() -> list[bytes]:
    """Secrets that nobody gets."""
    return [b"0123456789abcdef"]


class HalfAClock:
    """Tells the time, and can do nothing else."""

    def now_ms(self) -> int:
        """Always the same."""
        return 0


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"operation": " "}, "operation is empty"),
        ({"scheme": StripeSignature}, "scheme is no scheme: use StripeSignature()"),
        ({"scheme": "stripe"}, "scheme is no scheme"),
        ({"scheme": StripeSignature(tolerance=timedelta())}, "tolerance is datetime.timedelta(0)"),
        ({"scheme": StandardWebhooks(tolerance=timedelta(days=2))}, "at most a day"),
        ({"tenant": None}, "tenant is no source"),
        *(
            ({"tenant": source}, "which a webhook does not get: pass a callable of the delivery")
            for source in (jwt_claim("sub"), authorizer_value("t"), iam_principal(), api_key_id())
        ),
        ({"secrets": never_awaited}, "secrets is an async function, which nobody awaits"),
        ({"secrets": []}, "secrets: there is no secret"),
        ({"secrets": b""}, "secrets: there is no secret"),
        ({"secrets": "whsec_0123456789abcdef"}, "secrets: secrets are bytes, 16 or more"),
        ({"secrets": [b"short"]}, "secrets: secrets are bytes, 16 or more"),
        ({"secrets": b"whsec_0123456789abcdef\n"}, "secrets: a secret begins or ends with white"),
        (
            {"secrets": [b" whsec_0123456789abcdef"]},
            "white space, as the text of a file does: strip it",
        ),
        ({"event_id": "id"}, "event_id is no callable"),
        ({"retention": 60}, "retention is 60: a timedelta is needed"),
        ({"retention": None}, "retention is None: a timedelta is needed, or leave it out"),
        ({"retention": timedelta(days=3)}, "an event is sent again for 3 days"),
        ({"problem_base": 1}, "problem_base is 1"),
        ({"store": 1}, "store is no store"),
        ({"clock": 1}, "clock is no clock: leave it out"),
        ({"clock": HalfAClock()}, "clock is no clock (it has no pause, random_fraction,"),
        ({"clock": ManualClock}, "clock is the class ManualClock: pass an object of it"),
    ],
)
def test_a_wrong_option_is_told_when_it_is_decorated(wrong: dict[str, Any], fault: str) -> None:
    """Every option is checked before the first event, in words that say what to do."""
    with pytest.raises(ConfigurationError) as caught:
        webhook(**{**GOOD, **wrong})

    assert fault in str(caught.value)
    assert "short" not in str(caught.value)
    assert "0123456789abcdef" not in str(caught.value)


def test_what_is_decorated_is_a_plain_function_of_a_delivery() -> None:
    """Coroutines, generators, and handlers of event and context are refused with what to write."""

    async def coroutine(delivery: Delivery) -> None:
        """Waits for nothing."""

    def generator(delivery: Delivery) -> Any:
        yield delivery

    def handler(event: object, context: object) -> None:
        """Takes what Lambda gives."""

    for function in (coroutine, generator):
        with pytest.raises(ConfigurationError, match="write it as a plain def"):
            webhook(**GOOD)(function)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="takes one argument, the delivery"):
        webhook(**GOOD)(handler)  # type: ignore[arg-type]


def test_secrets_are_in_no_repr() -> None:
    """What stands in a traceback or a log of options shows no secret."""
    assert "whsec_" not in repr(webhook(secrets=b"whsec_0123456789abcdef", **GOOD))


@pytest.mark.requirement("A10")
@pytest.mark.parametrize("said", [None, "", " \n"])
def test_without_a_secret_nothing_is_accepted(
    said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no secret in the environment a delivery raises and leaves nothing, also one that is
    signed with an empty key.

    Red when a missing secret is an empty one.
    """
    monkeypatch.delenv("ONCEKEY_WEBHOOK_SECRET", raising=False)
    if said is not None:
        monkeypatch.setenv("ONCEKEY_WEBHOOK_SECRET", said)
    hook = Hook(secrets=None)

    for secret in (hook.sender.secret, b""):
        with pytest.raises(ConfigurationError, match="ONCEKEY_WEBHOOK_SECRET: there is no secret"):
            hook.post(event_with(hook.sender.headers(secret, b"{}", "", NOW_S), b"{}"))
    assert hook.store.records == {}


def test_secrets_that_cannot_be_had_now_are_a_503() -> None:
    """Where the callable that is asked for secrets raises, the sender sends again."""

    def secrets() -> NoReturn:
        raise TimeoutError("the vault at 10.0.0.1 is away")

    assert problem_of(Hook(secrets=secrets).send()) == (503, "not-executed", True)


def test_switched_off_the_signature_is_still_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ONCEKEY_DISABLED what is not signed is refused; what is is accepted and not written."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    hook = Hook()

    assert problem_of(hook.send(secret=hook.sender.other_secret))[1] == "signature-invalid"
    assert [status_of(hook.send()) for _ in range(2)] == ["accepted"] * 2
    assert hook.store.records == {}
    assert hook.store.messages == []
    hook.then = lambda delivery: delivery.json()["absent"]
    assert problem_of(hook.send()) == (400, "event-invalid", False)


def test_logs_say_why_and_repeat_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A refusal is logged with its operation and reason; no id, header, body or secret is."""
    hook = Hook()
    hook.then = lambda delivery: int(delivery.json()["id"])
    with caplog.at_level(logging.DEBUG, logger="oncekey"):
        hook.send("evt_private", secret=hook.sender.other_secret)
        hook.send("evt_private")

    said = [getattr(entry, "oncekey_event", "") for entry in caplog.records]
    assert said == ["webhook-refused", "webhook-not-understood"]
    assert "evt_private" not in caplog.text
    assert "whsec" not in caplog.text


def _raises(_delivery: Delivery) -> NoReturn:
    raise KeyError("evt_private")


@pytest.mark.parametrize("option", ["tenant", "event_id"])
@pytest.mark.parametrize(
    ("source", "why"),
    [
        (_raises, "raised KeyError"),
        (lambda _delivery: 4711, "returned a int"),
        (lambda _delivery: None, "returned None"),
    ],
)
def test_the_log_says_what_a_source_did_in_place_of_a_name(
    option: str, source: Any, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A mistake in the code would refuse every event. The log tells it by types, the sender not."""
    hook = Hook(**{option: source})

    answer = hook.send("evt_private")

    assert problem_of(answer)[0] in {400, 403}
    assert f"{option}= {why}" in caplog.text
    assert f"{option}=" not in answer["body"]
    assert not any(private in caplog.text for private in ("evt_private", "4711"))


# Pieces that signature headers are made of, and pieces that they are not.
PIECES = st.sampled_from(
    [
        *("t=", "v1=", "v0=", "sha256=", "sha1=", "v1,", "v1a,", ",", "=", " ", ".", "\t", "\x00"),
        *(str(NOW_S), "0", "-1", "9" * 30, "1e9", "٣", "0" * 64, "g" * 64, "A" * 43 + "="),
        *("é", "\ud800", "whsec_", "evt_1"),
    ]
)
HEADERS = st.one_of(
    st.lists(PIECES, max_size=8).map("".join), st.text(max_size=80), st.characters(codec=None)
)
BODIES = st.one_of(
    st.binary(max_size=60),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["id", "data", "é"]), inner, max_size=3)
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)


@pytest.mark.requirement("A10")
@EVERY_SENDER
@settings(max_examples=150)
@given(values=st.lists(HEADERS, max_size=3), body=BODIES, shape=st.sampled_from(SHAPES))
def test_no_signature_header_or_body_raises(
    sender: str, values: list[str], body: bytes, shape: str
) -> None:
    """Whatever stands in the signature's header is a 400 `signature-invalid`: no exception, no 500
    and no 2xx.

    Red when an error of parsing a header or a body leaves the handler.
    """
    hook = Hook(sender)
    headers: dict[str, Any] = dict(hook.sender.headers(hook.sender.secret, body, "evt_1", NOW_S))
    headers[hook.sender.signed_by] = values

    answer = hook.post(event_with(headers, body, shape))

    assert problem_of(answer) == (400, "signature-invalid", False)
    assert hook.store.records == {}


@EVERY_SENDER
@settings(max_examples=150)
@given(identifier=HEADERS, body=BODIES, shape=st.sampled_from(SHAPES))
def test_no_signed_id_or_body_raises(sender: str, identifier: str, body: bytes, shape: str) -> None:
    """Whatever a sender signs is taken on or is a 400: no exception, and no 5xx."""
    hook = Hook(sender)
    headers = hook.sender.headers(
        hook.sender.secret, body, identifier.encode("utf-8", "replace").decode(), NOW_S
    )

    answer = hook.post(event_with(headers, body, shape))

    assert answer["statusCode"] in (200, 400)
    assert (answer["statusCode"] == 200) is bool(hook.store.records)


@given(body=st.text(max_size=60), is_base64=st.booleans())
def test_no_encoding_of_a_body_raises(body: str, is_base64: bool) -> None:
    """A body that is marked as base64 and is none, or is text that UTF-8 has not, is a 400."""
    hook = Hook("github")
    event = event_with(hook.sender.headers(hook.sender.secret, b"{}", "evt_1", NOW_S), body)
    event["isBase64Encoded"] = is_base64

    assert hook.post(event)["statusCode"] == 400


@EVERY_SENDER
def test_a_body_in_base64_is_judged_decoded(sender: str) -> None:
    """The same bytes are accepted as text and in base64."""
    hook = Hook(sender)
    body = event_body("evt_1")
    headers = hook.sender.headers(hook.sender.secret, body, "evt_1", NOW_S)

    assert status_of(hook.post(event_with(headers, body))) == "accepted"
    assert status_of(hook.post(event_with(headers, body.decode()))) == "repeat"


def test_schemes_say_for_how_long_their_senders_try() -> None:
    """The default retention is longer than any sender sends an event again."""
    schemes = (StripeSignature(), GitHubSignature(), ShopifySignature(), StandardWebhooks())
    assert max(each.sends_again_for for each in schemes) == timedelta(hours=76)
    for scheme in schemes:
        webhook(operation="POST /webhooks", scheme=scheme, tenant=single_tenant())(publish)
