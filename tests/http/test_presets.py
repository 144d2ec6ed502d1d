"""The words of the two presets: the same cases, told apart in each."""

from __future__ import annotations

import json
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import IETF, STRIPE
from oncekey.errors import RequestRefused
from oncekey.http.preset import Marks
from oncekey.problem import PROBLEMS
from oncekey.record.outcome import Reason

if TYPE_CHECKING:
    from oncekey.http.preset import Preset

BASE = "https://docs.example.com/problems/"
MARKS: dict[str, Any] = {
    "key": '"a-key-as-it-was-sent"',
    "operation_id": "0f8fad5b-d9cb-469f-a165-70867728950e",
    "is_replay": False,
    "expires_at_s": 1_700_000_000,
    "request_id": "JKJaXmPLvHcESHA=",
}
PRESETS = pytest.mark.parametrize("preset", [IETF, STRIPE], ids=["ietf", "stripe"])


def marks(**changes: Any) -> Marks:
    """Those of a first answer, changed."""
    return Marks(**(MARKS | changes))


@PRESETS
@pytest.mark.parametrize("code", sorted(PROBLEMS))
def test_every_problem_has_words_in_every_preset(preset: Preset, code: str) -> None:
    """No case lacks an answer: a status of an error, a JSON body, and whether to come back.

    Red when a problem is added to one preset and forgotten in the other.
    """
    answer = preset.refusal(code, base=BASE, detail="said so", retry_after_ms=1_001)

    body = json.loads(answer["body"])
    assert 400 <= answer["statusCode"] < 600
    assert answer["isBase64Encoded"] is False
    assert answer["headers"]["Retry-After"] == "2"
    assert "said so" in (body.get("detail"), body.get("error", {}).get("message"))
    assert f"{BASE}{code}" in (body.get("type"), body.get("error", {}).get("doc_url"))


@PRESETS
def test_without_a_time_to_wait_none_is_said(preset: Preset) -> None:
    """Retry-After is there only where waiting makes sense."""
    assert "Retry-After" not in preset.refusal("key-reused", base=BASE)["headers"]


@pytest.mark.parametrize("code", sorted(PROBLEMS))
def test_both_presets_agree_whether_to_send_it_again(code: str) -> None:
    """`retryable` of the one and `Stripe-Should-Retry` of the other say the same.

    Red when a client of one preset is told to give up where one of the other is told to wait.
    """
    ietf, stripe = IETF.refusal(code, base=BASE), STRIPE.refusal(code, base=BASE)

    retryable = json.loads(ietf["body"])["retryable"]
    assert stripe["headers"]["Stripe-Should-Retry"] == str(retryable).lower()


@pytest.mark.requirement("D11")
def test_no_two_cases_look_the_same_to_clients_of_stripe() -> None:
    """Every problem has an error code of its own.

    Red when two problems are given one code.
    """
    bodies = [json.loads(STRIPE.refusal(code, base=BASE)["body"]) for code in PROBLEMS]

    assert len({body["error"]["code"] for body in bodies}) == len(PROBLEMS)


@pytest.mark.requirement("E4")
@pytest.mark.parametrize(
    ("code", "status", "kind", "error_code"),
    [
        ("key-reused", 400, "idempotency_error", None),
        ("request-in-progress", 409, None, "idempotency_key_in_use"),
        ("key-missing", 400, "invalid_request_error", None),
        ("store-unavailable", 503, "api_error", None),
    ],
)
def test_stripes_words_are_stripes(
    code: str, status: int, kind: str | None, error_code: str | None
) -> None:
    """What Stripe documents is said as Stripe says it, and everything else only where it has none.

    Red when the status, the type or the code is not what its clients branch on.
    """
    answer = STRIPE.refusal(code, base="urn:oncekey:problem:")
    error = json.loads(answer["body"])["error"]

    assert answer["statusCode"] == status
    assert answer["headers"]["Content-Type"] == "application/json"
    assert kind in (None, error["type"])
    assert error_code in (None, error["code"])
    assert "doc_url" not in error


@pytest.mark.requirement("E4")
@pytest.mark.parametrize(
    ("code", "status"), [("key-missing", 400), ("key-reused", 422), ("request-in-progress", 409)]
)
def test_the_drafts_words_are_the_drafts(code: str, status: int) -> None:
    """The draft's three cases have its statuses and titles, as RFC 9457 problem details.

    Red when a status, a title or the media type differs from the draft's.
    """
    answer = IETF.refusal(code, base=BASE)
    body = json.loads(answer["body"])

    assert answer["headers"] == {"Content-Type": "application/problem+json"}
    assert answer["statusCode"] == body["status"] == status
    assert body["title"] in {
        "Idempotency-Key is missing",
        "Idempotency-Key is already used",
        "A request is outstanding for this Idempotency-Key",
    }


def test_every_reason_of_a_refusal_is_a_problem() -> None:
    """Whatever the engine refuses for has words; so has a request that is refused before it.

    But for what is told to workers alone.
    """
    assert set(Reason) - {Reason.SUPERSEDED} <= set(PROBLEMS)
    assert RequestRefused("request-invalid", "").code in PROBLEMS


@PRESETS
def test_the_key_is_echoed_as_it_was_sent_and_its_expiry_said(preset: Preset) -> None:
    """First answers and replays echo the key, quotes and all, and say how long it is kept; what is
    not kept promises nothing.

    Red when the key is echoed in another form, or an expiry is said of what is not stored.
    """
    first = preset.headers(marks())
    replay = preset.headers(marks(is_replay=True))
    unrecorded = preset.headers(marks(expires_at_s=None))

    for headers in (first, replay):
        assert headers["Idempotency-Key"] == '"a-key-as-it-was-sent"'
        expiry = parsedate_to_datetime(headers["Idempotency-Expires"])
        assert expiry.timestamp() == 1_700_000_000
    assert "Idempotent-Replayed" not in first
    assert replay["Idempotent-Replayed"] == "true"
    assert "Idempotency-Expires" not in unrecorded


def test_a_replay_names_its_own_request_and_the_first_one_as_stripe_does() -> None:
    """On a first answer both ids are the same; on a replay `Request-Id` is this request's and
    `Original-Request` the first one's.

    Red when a replay passes for the first request, or the first names another.
    """
    first = STRIPE.headers(marks())
    replay = STRIPE.headers(marks(is_replay=True, request_id="another=request"))

    assert first["Original-Request"] == first["Request-Id"]
    assert replay["Original-Request"] == first["Original-Request"]
    assert replay["Request-Id"] == "req_anotherrequest"
    assert first["Stripe-Should-Retry"] == replay["Stripe-Should-Retry"] == "false"


@pytest.mark.parametrize("is_replay", [True, False])
def test_without_an_id_of_the_gateway_there_is_still_a_request_id(is_replay: bool) -> None:
    """A load balancer gives no request id; the operation's stands in."""
    headers = STRIPE.headers(marks(request_id=None, is_replay=is_replay))

    assert headers["Request-Id"] == headers["Original-Request"]
    assert headers["Request-Id"].startswith("req_")
