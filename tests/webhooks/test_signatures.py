"""Signatures of webhooks: published vectors, and what is accepted under each scheme."""

from __future__ import annotations

import hmac
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import stripe
from hypothesis import given
from hypothesis import strategies as st

from oncekey.errors import ConfigurationError, RequestRefused
from oncekey.http.event import read_request
from oncekey.webhooks.schemes import StandardWebhooks, StripeSignature
from oncekey.webhooks.signatures import keys_of, secrets_faults, verify
from tests.support.webhooks import NOW_MS, NOW_S, SENDERS, SHAPES, event_with

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.webhooks import Sender

BODY = b'{"id":"evt_1","note":"\xc3\xa9 \xe2\x82\xac"}'
EVERY_SENDER = pytest.mark.parametrize("sender", SENDERS.values(), ids=SENDERS)


def judge(
    sender: Sender,
    headers: Mapping[str, str | list[str]],
    body: str | bytes = BODY,
    *,
    secrets: list[bytes] | None = None,
    now_ms: int = NOW_MS,
    shape: str = "apigw_http_v2_post",
) -> str | None:
    """The code that the request is refused with, or None if it is accepted."""
    request = read_request(event_with(headers, body, shape))
    keys = [sender.scheme.key(secret) for secret in secrets or [sender.secret]]
    try:
        verify(sender.scheme, request, request.body, keys, now_ms)
    except RequestRefused as refused:
        return refused.code
    return None


def signed(sender: Sender, body: bytes = BODY, at_s: int = NOW_S) -> dict[str, str]:
    """The sender's headers for `body`."""
    return sender.headers(sender.secret, body, "evt-0001", at_s)


@pytest.mark.requirement("A10")
def test_githubs_published_vector() -> None:
    """GitHub's published signature of "Hello, World!" is accepted, and of no other body.

    Red when something else than the raw body is signed, or another hash is taken.
    """
    digest = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    headers = {"X-Hub-Signature-256": f"sha256={digest}"}

    assert judge(SENDERS["github"], headers, "Hello, World!") is None
    assert judge(SENDERS["github"], headers, "Hello, World") == "signature-invalid"


@pytest.mark.requirement("A10")
def test_the_published_vector_of_standard_webhooks() -> None:
    """The vector of the specification's own libraries is accepted at its time.

    Red when the secret is taken as text, or the id or the time is not part of what is signed.
    """
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    body, sent_ms = '{"test": 2432232314}', 1_614_265_330_000
    sender = SENDERS["standard"]

    assert judge(sender, headers, body, now_ms=sent_ms) is None
    for name, changed in (("webhook-id", "msg_2"), ("webhook-timestamp", "1614265331")):
        other = {**headers, name: changed}
        assert judge(sender, other, body, now_ms=sent_ms) == "signature-invalid"


@given(payload=st.text(min_size=1), secret=st.text("abcdef0123456789", min_size=16))
def test_what_stripes_own_sdk_signs_is_accepted(payload: str, secret: str) -> None:
    """A header that Stripe's SDK makes is accepted, and is one that the SDK accepts itself."""
    secret = f"whsec_{secret}"
    made = stripe.WebhookSignature.generate_signature_header(payload, secret, NOW_S)
    sender = SENDERS["stripe"]
    body = payload.encode("utf-8")

    stripe.WebhookSignature.verify_header(payload, made, secret)
    assert judge(sender, {"Stripe-Signature": made}, body, secrets=[secret.encode()]) is None


def test_what_we_sign_for_stripe_is_an_event_to_its_sdk() -> None:
    """The signatures of these tests are Stripe's, by the judgement of its SDK."""
    body = b'{"id":"evt_1","object":"event"}'
    headers = signed(SENDERS["stripe"], body)

    event = stripe.Webhook.construct_event(
        body, headers["Stripe-Signature"], SENDERS["stripe"].secret.decode(), tolerance=0
    )

    assert event.id == "evt_1"


@pytest.mark.requirement("A10")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("spell", [str, str.lower, str.upper], ids=["as is", "lower", "upper"])
@EVERY_SENDER
def test_a_signature_holds_in_every_shape_and_letter_case(
    sender: Sender, spell: type[str], shape: str
) -> None:
    """Each scheme is accepted in each event shape, with header names in any letter case.

    Red when header names are compared as they are, or a shape's headers are not read.
    """
    headers = {spell(name): value for name, value in signed(sender).items()}

    assert judge(sender, headers, BODY, shape=shape) is None
    assert judge(sender, headers, BODY.decode(), shape=shape) is None


@pytest.mark.requirement("A10")
@EVERY_SENDER
def test_another_body_or_secret_is_refused(sender: Sender) -> None:
    """A body with one byte changed, added or left out is refused, and so is another secret.

    Red when the body is parsed and written anew before it is signed, or no digest is compared.
    """
    headers = signed(sender)

    for other in (BODY + b" ", BODY[:-1], BODY.replace(b"evt_1", b"evt_2"), b""):
        assert judge(sender, headers, other) == "signature-invalid"
    assert judge(sender, headers, secrets=[sender.other_secret]) == "signature-invalid"


@pytest.mark.requirement("A10")
@EVERY_SENDER
def test_secrets_rotate(sender: Sender) -> None:
    """While there are two secrets, what either signs is accepted.

    Red when only the newest secret is tried.
    """
    both = [sender.other_secret, sender.secret]

    assert judge(sender, signed(sender), secrets=both) is None
    assert judge(sender, signed(sender), secrets=both[::-1]) is None


def test_one_of_several_signatures_is_enough() -> None:
    """A sender that rotates signs with both secrets; one known here is enough, in any place."""
    stripe_sender, standard = SENDERS["stripe"], SENDERS["standard"]
    ours = signed(stripe_sender)["Stripe-Signature"].partition(",")[2]
    other = stripe_sender.headers(stripe_sender.other_secret, BODY, "", NOW_S)
    theirs = other["Stripe-Signature"].partition(",")[2]
    for digests in (f"{theirs},{ours}", f"{ours},{theirs}", f"v0={'0' * 64},{ours}"):
        assert judge(stripe_sender, {"Stripe-Signature": f"t={NOW_S},{digests}"}) is None

    headers = signed(standard)
    foreign = standard.headers(standard.other_secret, BODY, "evt-0001", NOW_S)["webhook-signature"]
    mine = headers["webhook-signature"]
    for digests in (f"{foreign} {mine}", f"{mine} {foreign}", f"v1a,AAAA {mine}"):
        assert judge(standard, {**headers, "webhook-signature": digests}) is None


@pytest.mark.requirement("A10")
@pytest.mark.parametrize("scheme", [StripeSignature, StandardWebhooks])
def test_a_timestamp_is_judged_in_both_directions(
    scheme: type[StripeSignature | StandardWebhooks],
) -> None:
    """Up to the tolerance a time before or after ours is accepted, and not beyond, either way.

    Red when only old timestamps are refused, as Stripe's SDK has it.
    """
    sender = SENDERS["stripe" if scheme is StripeSignature else "standard"]
    sent_ms = 1000 * NOW_S
    headers = signed(sender)

    for tolerance, least_ms in (
        (scheme(), 300_000),
        (scheme(tolerance=timedelta(minutes=1)), 60_000),
    ):
        request = read_request(event_with(headers, BODY))
        keys = [sender.scheme.key(sender.secret)]
        for off_ms in (-least_ms, least_ms):
            verify(tolerance, request, BODY, keys, sent_ms + off_ms)
        for off_ms in (-least_ms - 1, least_ms + 1):
            with pytest.raises(RequestRefused, match="too far from the time here"):
                verify(tolerance, request, BODY, keys, sent_ms + off_ms)


@pytest.mark.requirement("A10")
@pytest.mark.parametrize("shape", SHAPES)
@EVERY_SENDER
def test_a_repeated_signature_header_is_refused(sender: Sender, shape: str) -> None:
    """A signature header that stands twice, or is missing, is refused, however the gateway has it.

    Red when the first of two lines counts.
    """
    headers = signed(sender)
    twice: dict[str, str | list[str]] = {
        **headers,
        sender.signed_by: [headers[sender.signed_by]] * 2,
    }
    none = {name: value for name, value in headers.items() if name != sender.signed_by}

    assert judge(sender, twice, shape=shape) == "signature-invalid"
    assert judge(sender, none, shape=shape) == "signature-invalid"


@pytest.mark.parametrize(
    "value",
    [
        "",
        ",",
        "=",
        "t=",
        "t=1,v1=",
        f"t={NOW_S}",
        f"v1={'0' * 64}",
        "t=x,v1=" + "0" * 64,
        "t=٣,v1=" + "0" * 64,
        "t=-1,v1=" + "0" * 64,
        "t=1e9,v1=" + "0" * 64,
        "t=" + "9" * 400 + ",v1=" + "0" * 64,
        f"t={NOW_S},v1={'é' * 64}",
        f"t={NOW_S},v1={'0' * 63}",
        "sha256=" + "0" * 63,
        "sha1=" + "0" * 64,
        "v1,",
        "v1,=" * 11,
        "v1,\ud800",
        "\x00",
    ],
)
@EVERY_SENDER
def test_a_malformed_signature_is_refused(sender: Sender, value: str) -> None:
    """A signature that has not its form is refused, as one that does not match is."""
    assert judge(sender, {**signed(sender), sender.signed_by: value}) == "signature-invalid"


def test_an_id_cannot_reach_into_the_time() -> None:
    """With Standard Webhooks an id with a full stop is refused: it could hide another time."""
    sender = SENDERS["standard"]
    headers = sender.headers(sender.secret, BODY, f"msg_1.{NOW_S}", NOW_S)

    assert judge(sender, headers) == "signature-invalid"


@EVERY_SENDER
def test_secrets_that_cannot_be_are_faults(sender: Sender) -> None:
    """None, an empty one, text and a short one are faults, and none of them is repeated."""
    nonsense: list[object] = [
        None,
        b"",
        b"   ",
        [],
        [b""],
        ["text-of-sixteen-characters"],
        [b"short"],
    ]

    for secrets in nonsense:
        faults = secrets_faults(sender.scheme, secrets)
        assert len(faults) == 1
        assert "short" not in faults[0]
        assert "text-of" not in faults[0]
    assert secrets_faults(sender.scheme, [sender.secret, sender.other_secret]) == []
    assert secrets_faults(sender.scheme, sender.secret) == []


@pytest.mark.parametrize("secret", [b"whsec_" + b"!" * 32, b"whsec_AAAAAAAAAAAAAAAA", b"A" * 200])
def test_a_secret_of_standard_webhooks_is_24_to_64_bytes_in_base64(secret: bytes) -> None:
    """Anything else is a fault; its text repeats nothing of it."""
    faults = secrets_faults(StandardWebhooks(), [secret])

    assert faults == ["a secret is whsec_ and 24 to 64 bytes in base64"]


def test_a_body_is_hashed_once_for_each_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not signed costs no more for the number of digests that its header claims."""
    hashed: list[bytes] = []
    original = hmac.digest

    def digest(key: bytes, content: bytes, algorithm: str) -> bytes:
        hashed.append(key)
        return original(key, content, algorithm)

    monkeypatch.setattr("hmac.digest", digest)
    claimed = ",".join(f"v1={number:064x}" for number in range(100))
    secrets = [b"whsec_newer_0123456789", b"whsec_older_0123456789"]

    code = judge(SENDERS["stripe"], {"Stripe-Signature": f"t={NOW_S},{claimed}"}, secrets=secrets)

    assert code == "signature-invalid"
    assert hashed == secrets


def test_secrets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONCEKEY_WEBHOOK_SECRET holds the secrets, in words; without one nothing is accepted."""
    scheme = StripeSignature()
    monkeypatch.setenv(
        "ONCEKEY_WEBHOOK_SECRET", " whsec_newer_0123456789\n whsec_older_0123456789 "
    )
    assert keys_of(scheme, None, "here") == [b"whsec_newer_0123456789", b"whsec_older_0123456789"]

    for value in ("", "  \n"):
        monkeypatch.setenv("ONCEKEY_WEBHOOK_SECRET", value)
        with pytest.raises(ConfigurationError, match=r"here: ONCEKEY_WEBHOOK_SECRET: there is no"):
            keys_of(scheme, None, "here")


def test_secrets_are_asked_for_at_each_request() -> None:
    """A callable is asked whenever a request comes, so that a rotation needs no restart."""
    answers: Iterator[bytes | list[bytes]] = iter(
        [b"whsec_older_0123456789", [b"whsec_newer_0123456789"], []]
    )

    def source() -> bytes | list[bytes]:
        return next(answers)

    assert keys_of(StripeSignature(), source, "here") == [b"whsec_older_0123456789"]
    assert keys_of(StripeSignature(), source, "here") == [b"whsec_newer_0123456789"]
    with pytest.raises(ConfigurationError, match="secrets: there is no secret"):
        keys_of(StripeSignature(), source, "here")
