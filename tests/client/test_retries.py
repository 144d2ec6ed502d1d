"""What each client sends again, under which key and after which pause."""

from __future__ import annotations

import asyncio
import gzip
import io
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from oncekey import ConfigurationError
from oncekey.client import BodyNotReplayable, IdempotentAdapter, IdempotentTransport, Retrying
from oncekey.http.http_date import http_date
from oncekey.testing import ManualClock
from tests.client.servers import (
    CLIENTS,
    LATE,
    LOST,
    NO_ANSWER,
    OK,
    Client,
    Reply,
    Scripted,
    Server,
    problem,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

STRIPE = {"Content-Type": "application/json"}
PROBLEM = {"Content-Type": "application/problem+json"}


@pytest.fixture(params=CLIENTS, ids=list(CLIENTS))
def client(request: pytest.FixtureRequest) -> Client:
    """Each of the three clients."""
    return CLIENTS[request.param]


@pytest.mark.parametrize(
    "failure",
    [
        LOST,
        LATE,
        Reply(201, broken=True),
        Reply(500, body=b'{"message":"Internal Server Error"}'),
        Reply(503),
        Reply(429),
        Reply(409),
        problem("request-in-progress"),
        problem("outcome-unknown"),
        problem("store-unavailable"),
        problem("quota-exceeded"),
        problem("not-executed"),
        Reply(409, {**STRIPE, "Stripe-Should-Retry": "true"}),
        Reply(400, {**STRIPE, "Stripe-Should-Retry": "true"}),
    ],
    ids=str,
)
def test_an_unanswered_request_is_sent_again_under_its_key(
    client: Client, failure: Scripted
) -> None:
    """A lost, late or cut-off answer, and an answer that means "not now", lead to the same request
    under the same key, and the caller gets the final answer.
    """
    server = Server([failure, failure, OK])

    answer = client(server)

    assert (answer.status, answer.body) == (201, OK.body)
    assert len(server.got) == 3
    assert server.keys == {answer.sent_headers["Idempotency-Key"]}
    assert {sent.body for sent in server.got} == {b'{"amount": 1}'}


@pytest.mark.parametrize(
    "last",
    [
        Reply(400),
        Reply(404),
        Reply(202, {"Retry-After": "5", "Location": "/operations/1"}),
        problem("key-reused"),
        problem("key-invalid"),
        problem("not-started-in-time"),
        problem("store-unavailable", retryable=False),
        problem("answer-unavailable"),
        Reply(409, {**STRIPE, "Stripe-Should-Retry": "false"}),
        Reply(500, {"Idempotency-Expires": "Fri, 27 Nov 2026 10:00:00 GMT"}),
        Reply(
            409,
            {
                "Content-Type": "application/problem+json",
                "Content-Encoding": "gzip",
            },
            gzip.compress(b'{"retryable": false}', mtime=0),
        ),
    ],
    ids=str,
)
def test_an_answer_that_waiting_does_not_change_is_the_last(client: Client, last: Reply) -> None:
    """A mistake, a stored answer, and one that says that a retry does not help is given at once."""
    server = Server([last])

    answer = client(server)

    assert answer.status == last.status
    assert len(server.got) == 1


def test_a_key_of_the_caller_is_kept(client: Client) -> None:
    """A request that has a key, in any spelling of the name, is sent under that one alone."""
    server = Server([LOST, OK])

    client(server, headers={"idempotency-key": "the-key-of-order-7"})

    assert server.keys == {"the-key-of-order-7"}


def test_each_operation_has_its_own_key(client: Client) -> None:
    """Two requests of one client are two operations."""
    server = Server([OK])

    client(server)
    client(server)

    assert len(server.keys) == 2


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_an_unsafe_request_without_a_key_is_sent_once(client: Client, method: str) -> None:
    """What changes something and has no key might happen twice, so its error is raised."""
    server = Server([LOST, OK])

    with pytest.raises(NO_ANSWER):
        client(server, method)

    assert (len(server.got), server.keys) == (1, {None})


@pytest.mark.parametrize(("method", "keyed"), [("GET", False), ("PUT", True)])
def test_a_safe_request_and_a_keyed_one_are_sent_again(
    client: Client, method: str, keyed: bool
) -> None:
    """A GET needs no key and gets none; a PUT with a key is sent again."""
    server = Server([LOST, Reply(503), OK])

    client(server, method, body=None, headers={"Idempotency-Key": "k" * 16} if keyed else None)

    assert (len(server.got), server.keys) == (3, {"k" * 16 if keyed else None})


def test_the_pauses_double_up_to_a_cap(client: Client) -> None:
    """The longest pause doubles with each sending; half of it is drawn here."""
    server = Server([LOST, LOST, LOST, LOST, OK])

    client(server, first_pause_s=1, longest_pause_s=3)

    assert server.pauses_s == [0.5, 1.0, 1.5, 1.5]


@pytest.mark.parametrize("form", ["seconds", "date", "past", "nonsense"])
def test_retry_after_is_waited_for(client: Client, form: str) -> None:
    """The pause is at least that of Retry-After, in seconds or as a date, and a drawn one more."""
    server = Server([])
    at_s = server.clock.now_ms() // 1000
    said = {"seconds": "7", "date": http_date(at_s + 7), "past": http_date(at_s - 7)}
    server.script = [Reply(503, {"Retry-After": said.get(form, "soon")}), OK]

    client(server, first_pause_s=1)

    assert server.pauses_s == [7.5 if form in {"seconds", "date"} else 0.5]


@pytest.mark.parametrize(
    ("retrying", "sent"), [({"attempts": 3}, 3), ({"total_s": 4}, 5), ({"attempts": 1}, 1)]
)
@pytest.mark.parametrize("failure", [LOST, Reply(503)], ids=str)
def test_the_tries_are_bounded(
    client: Client, retrying: dict[str, Any], sent: int, failure: Scripted
) -> None:
    """After the last attempt, or if the next one would begin too late, the caller gets the last
    answer or error.
    """
    server = Server([failure])

    if failure is LOST:
        with pytest.raises(NO_ANSWER) as raised:
            client(server, first_pause_s=2, longest_pause_s=2, **retrying)
        # The caller goes on with the same key.
        request = getattr(raised.value, "request", None)
        assert request is not None
        assert {request.headers["Idempotency-Key"]} == server.keys
    else:
        assert client(server, first_pause_s=2, longest_pause_s=2, **retrying).status == 503
    assert len(server.got) == sent


@pytest.mark.parametrize("seconds", ["600", "9" * 4_400])
def test_a_wait_beyond_the_total_time_is_not_begun(client: Client, seconds: str) -> None:
    """An answer that asks for more time than is left is given at once."""
    server = Server([Reply(503, {"Retry-After": seconds})])

    assert client(server).status == 503
    assert server.got[-1].at_s == 0


def test_the_first_sending_is_named_in_each(client: Client) -> None:
    """Repeatability-First-Sent is the time of the first sending, also in the last."""
    server = Server([LOST, Reply(503, {"Retry-After": "30"}), OK])
    first = http_date(server.clock.now_ms() // 1000)

    client(server, sends_first_sent=True)

    assert {sent.first_sent for sent in server.got} == {first}
    client(server, sends_first_sent=True, headers={"Repeatability-First-Sent": "earlier"})
    assert server.got[-1].first_sent == "earlier"


def test_a_key_of_the_caller_gets_no_date(client: Client) -> None:
    """A stored key may be older than the request, so only its caller knows when it was first sent.

    Red when the date of today defeats the 412 of an expired record.
    """
    server = Server([OK])

    client(server, sends_first_sent=True, headers={"Idempotency-Key": "the-key-of-last-week"})

    assert server.got[-1].first_sent is None


def test_a_body_that_can_be_read_only_once_is_refused() -> None:
    """A generator as the body of a request that may be sent again is refused before it is sent."""

    def pieces() -> Iterator[bytes]:
        yield b"{}"

    for name in ("httpx", "requests"):
        server = Server([LOST, OK])
        with pytest.raises(BodyNotReplayable, match=r"POST https://api\.example/payments is a str"):
            CLIENTS[name](server, body=pieces())
        assert server.got == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:secret@api.example/a?token=secret", "https://api.example/a"),
        ("https://secret@api.example#secret", "https://api.example"),
        ("https://api.example/@me/x", "https://api.example/@me/x"),
    ],
)
def test_the_refusal_of_a_body_repeats_no_secret_of_its_url(url: str, shown: str) -> None:
    """Neither a password nor a query is in the text of the error, which is logged."""
    refused = BodyNotReplayable("POST", url)

    assert f"the body of POST {shown} is a stream" in str(refused)
    assert "secret" not in f"{refused!r} {refused.url}"


def test_a_file_is_sent_as_a_whole_each_time() -> None:
    """The body of a retry is not what the first sending left of the file."""
    for name in ("httpx", "requests"):
        server = Server([LOST, OK])
        CLIENTS[name](server, body=io.BytesIO(b"the whole file"))
        assert [sent.body for sent in server.got] == [b"the whole file"] * 2


def test_an_answer_that_was_made_with_its_content_is_given() -> None:
    """The answers of httpx's own `MockTransport` are read already, and decide on a retry, too."""

    def mocked() -> IdempotentTransport:
        wait = httpx.Response(400, headers={"Stripe-Should-Retry": "true"}, json={})
        script = [wait, httpx.Response(409, headers=PROBLEM, json={"retryable": False})]
        wrapped = httpx.MockTransport(lambda _: script.pop(0))
        return IdempotentTransport(wrapped, retrying=Retrying(clock=ManualClock()))

    async def by_async() -> httpx.Response:
        async with httpx.AsyncClient(transport=mocked()) as client:
            return await client.post("https://api.example/", json={})

    with httpx.Client(transport=mocked()) as client:
        answers = [client.post("https://api.example/", json={}), asyncio.run(by_async())]

    assert [answer.json() for answer in answers] == [{"retryable": False}] * 2


@pytest.mark.parametrize(
    "last", [Reply(201, broken=True), Reply(201, {"Content-Encoding": "gzip"}, b"no gzip")], ids=str
)
def test_the_error_of_a_useless_answer_has_the_request(client: Client, last: Reply) -> None:
    """If the answer breaks off or cannot be decoded, the caller finds the key in the error."""
    server = Server([last])

    with pytest.raises((*NO_ANSWER, httpx.DecodingError)) as raised:
        client(server, attempts=2)

    request = getattr(raised.value, "request", None)
    assert request is not None
    assert {request.headers["Idempotency-Key"]} == server.keys


def test_the_answer_of_a_get_is_not_read_for_its_caller() -> None:
    """A download through the transport stays a stream."""
    download = httpx.Response(200, stream=httpx.ByteStream(b"abc"))
    transport = IdempotentTransport(httpx.MockTransport(lambda _: download))

    with (
        httpx.Client(transport=transport) as client,
        client.stream("GET", "https://api.example/") as response,
    ):
        assert b"".join(response.iter_raw()) == b"abc"


def test_a_transport_of_the_wrong_kind_is_refused() -> None:
    """An async transport in a sync client is a mistake with a name."""
    transport = IdempotentTransport(httpx.AsyncHTTPTransport())

    with (
        pytest.raises(TypeError, match="around a sync transport"),
        httpx.Client(transport=transport) as client,
    ):
        client.get("https://api.example/")


def test_methods_are_named_in_any_letter_case(client: Client) -> None:
    """`methods=("put",)` gives a PUT its key."""
    server = Server([LOST, OK])

    client(server, "PUT", methods=("put",))

    assert None not in server.keys


def test_wrong_settings_are_named_together() -> None:
    """All faults are in one message."""
    with pytest.raises(ConfigurationError, match=r"attempts is 0.*total_s is -1.*methods is"):
        Retrying(attempts=0, total_s=-1, methods="POST")


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": "5"},
        {"attempts": True},
        {"attempts": 1.5},
        {"total_s": timedelta(seconds=5)},
        {"total_s": math.nan},
        {"first_pause_s": math.inf},
        {"longest_pause_s": None},
        {"methods": 5},
        {"methods": [5]},
        {"sends_first_sent": "no"},
        {"clock": ManualClock},
    ],
    ids=repr,
)
def test_a_wrong_setting_is_found_before_a_request_is_sent(wrong: dict[str, Any]) -> None:
    """Not by Python's own error, after a request that may have had an effect."""
    (name,) = wrong
    with pytest.raises(ConfigurationError, match=f"{name} is"):
        Retrying(**wrong)


def test_a_client_may_retry_for_any_time_and_any_number_of_times() -> None:
    """Neither an endless time nor the doubling of the pauses is too large a number."""
    clock = ManualClock()
    tries = Retrying(attempts=2_000, total_s=math.inf, clock=clock).begin("POST", {})

    pauses = [tries.pause_after_error() for _ in range(2_000)]

    assert pauses[-2:] == [5_000, None]


@pytest.mark.parametrize("made", [IdempotentTransport, IdempotentAdapter])
@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"wrapped": Retrying()}, "wrapped is a Retrying: pass a"),
        ({"wrapped": "https://api.example"}, "wrapped is a str: pass a"),
        ({"retrying": 5}, "retrying is a int: pass Retrying"),
        ({"retrying": Retrying}, "retrying is a type: pass Retrying"),
    ],
)
def test_a_wrong_part_is_refused_when_the_transport_is_made(
    made: Any, wrong: dict[str, Any], fault: str
) -> None:
    """Not by the first request, and in words that say what to pass."""
    with pytest.raises(ConfigurationError) as refused:
        made(**wrong)
    assert fault in str(refused.value)


@pytest.mark.parametrize("clock", [None, "now", object()])
def test_a_clock_that_is_none_is_refused_when_the_retries_are_made(clock: Any) -> None:
    """The first request would fail on it."""
    with pytest.raises(ConfigurationError, match="clock is no clock: leave it out"):
        Retrying(clock=clock)
