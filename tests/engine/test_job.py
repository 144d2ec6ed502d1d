"""What is written down of an accepted request, and read again by its worker."""

from __future__ import annotations

import copy
import json
import uuid
import zlib
from typing import Any

import pytest

from oncekey.engine.job import (
    TOPIC,
    Job,
    JobMessage,
    event_text,
    job_message_in,
    kept_request,
    message_of,
)
from oncekey.errors import EnvelopeUnreadable, RequestRefused
from oncekey.outbox.envelope import sealed
from oncekey.outbox.inbox import delivered
from oncekey.record.record import Status
from tests.support.events import load, with_body, with_header
from tests.support.protected import SHAPES
from tests.support.records import NOW_MS, record
from tests.support.replacing import replace

POST = load("apigw_http_v2_post")
WITHOUT_CREDENTIALS = with_header(POST, "authorization")
PENDING = record(status=Status.PENDING, lease_until_ms=None)
# The largest event that a message holds: 200,000 bytes, but for what stands beside it.
LARGEST_BYTES = 199_000

CREDENTIALS = {
    "Authorization": "Bearer secret-token",
    "authorization": "Basic secret-token",
    "PROXY-AUTHORIZATION": "secret-token",
    "Cookie": "session=secret-token",
    "X-Api-Key": "secret-token",
    "x-amz-security-token": "secret-token",
    "X-Amzn-Oidc-Accesstoken": "secret-token",
    "x-amzn-oidc-data": "secret-token",
}


def kept(event: Any) -> Any:
    """What a worker gets of `event`."""
    return json.loads(event_text(event, has_bucket=True))


def unsigned(shape: str) -> Any:
    """The sample, without the access key that signed it and the id that goes with it."""
    event = load(shape)
    iam = event["requestContext"].get("authorizer", {}).get("iam", {})
    for name in ("accessKey", "callerId"):
        iam.pop(name, None)
    return event


def job(event: Any) -> Job:
    """The job of this event."""
    return Job(event=event_text(event, has_bucket=True))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CREDENTIALS)
def test_headers_that_prove_who_asks_are_not_written_down(shape: str, name: str) -> None:
    """In any letter case, and wherever the shape has headers, they are left out, and only they."""
    event = with_header(with_header(unsigned(shape), "authorization"), name, CREDENTIALS[name])

    text = event_text(event, has_bucket=True)

    assert "secret-token" not in text
    assert json.loads(text) == with_header(event, name)


def test_cookies_and_the_value_of_an_api_key_are_not_written_down() -> None:
    """Payload 2.0 lists cookies apart, and a REST API repeats the API key in its context."""
    payload_2 = {**load("apigw_http_v2_post"), "cookies": ["session=secret-token"]}
    rest = load("apigw_rest_v1_post")
    rest["requestContext"]["identity"].update(apiKey="secret-token", apiKeyId="key-1")

    assert "secret-token" not in event_text(payload_2, has_bucket=True)
    assert "cookies" not in kept(payload_2)
    assert "secret-token" not in event_text(rest, has_bucket=True)
    assert kept(rest)["requestContext"]["identity"]["apiKeyId"] == "key-1"


@pytest.mark.parametrize("shape", ["apigw_http_v2_post", "apigw_rest_v1_post", "function_url_post"])
def test_what_the_authorizer_found_is_kept(shape: str) -> None:
    """The claims, or the IAM caller, are the worker's way to tenant and principal."""
    authorizer = unsigned(shape)["requestContext"]["authorizer"]

    assert authorizer
    assert kept(load(shape))["requestContext"]["authorizer"] == authorizer


@pytest.mark.parametrize("shape", SHAPES)
def test_the_event_itself_is_not_changed(shape: str) -> None:
    """The caller's event is its own, credentials and all."""
    event = {**with_header(load(shape), "authorization", "Bearer token"), "cookies": ["a=b"]}
    before = copy.deepcopy(event)

    event_text(event, has_bucket=True)

    assert event == before


@pytest.mark.parametrize(
    "event",
    [
        {**WITHOUT_CREDENTIALS, "headers": None},
        {**WITHOUT_CREDENTIALS, "multiValueHeaders": None},
        {**WITHOUT_CREDENTIALS, "requestContext": {"http": {"method": "POST"}, "identity": None}},
        {**WITHOUT_CREDENTIALS, "requestContext": None},
    ],
)
def test_an_event_without_these_members_is_kept_as_it_is(event: dict[str, Any]) -> None:
    """What a gateway leaves empty stays so."""
    assert kept(event) == event


@pytest.mark.parametrize("body", ["\ud800", 'a\udfff"', "Zoë \U0001f600", "\x00", ""])
def test_any_body_survives(body: str) -> None:
    """Lone surrogates, control characters and whatever else JSON can carry come out again, through
    the queue.
    """
    event = with_body(POST, body)

    message = message_of(job(event), PENDING, NOW_MS)
    body_of_queue = sealed(replace(message, payload_ref=None))
    body_of_queue.encode("utf-8")

    task = job_message_in(delivered(body_of_queue).payload, PENDING.operation_id)
    assert task.event["body"] == body


def sized(size_bytes: int) -> dict[str, Any]:
    """An event whose text has so many bytes."""
    empty = with_body(POST, "")
    left = size_bytes - len(event_text(empty, has_bucket=True))
    return with_body(POST, "x" * left)


def test_without_a_bucket_only_so_much_is_kept() -> None:
    """Up to 199,000 bytes as they are written the message holds the event; one more is refused with
    `request-invalid`, and its text repeats nothing of it.
    """
    assert len(event_text(sized(LARGEST_BYTES), has_bucket=False)) == LARGEST_BYTES

    with pytest.raises(RequestRefused) as refused:
        event_text(sized(LARGEST_BYTES + 1), has_bucket=False)
    assert refused.value.code == "request-invalid"
    assert "xxx" not in str(refused.value)


def test_a_job_is_large_where_its_message_may_need_the_bucket() -> None:
    """What the bucket's refusal and the read before a repeat go by is one limit."""
    assert not job(sized(LARGEST_BYTES)).is_large
    assert job(sized(LARGEST_BYTES + 1)).is_large
    # Whatever a record's key and owner are, what is not large stands in its message.
    assert message_of(job(sized(LARGEST_BYTES)), PENDING, NOW_MS).payload_ref is None


def test_a_record_keeps_no_request_that_its_message_could_not_hold(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A reconciler sends what a record has kept in a message without the bucket, so that a larger
    event is not kept, however small it packs, and the log says so.
    """
    packed = kept_request(sized(LARGEST_BYTES), "POST /payments")
    assert isinstance(packed, bytes)
    assert json.loads(zlib.decompress(packed)) == kept(sized(LARGEST_BYTES))
    assert caplog.records == []

    assert kept_request(sized(LARGEST_BYTES + 1), "POST /payments") is None
    assert "bytes compressed" in caplog.text


def test_the_message_of_another_visit_is_another_message() -> None:
    """The same visit sends the same message again; its worker drops the second by its id."""
    names = ["", "visit 1", "visit 1", "visit 2"]

    ids = [message_of(job(POST), PENDING, NOW_MS, name=name).id for name in names]

    assert ids[1] == ids[2]
    assert len(set(ids)) == 3


@pytest.mark.parametrize("size_bytes", [LARGEST_BYTES + 1_001, 1_000_000])
def test_a_large_payload_is_kept_apart_under_its_owners_name(size_bytes: int) -> None:
    """Two acceptances of one operation keep theirs under different names."""
    large = job(sized(size_bytes))

    refs = [
        message_of(large, replace(PENDING, owner=owner, attempt=attempt), NOW_MS).payload_ref
        for owner, attempt in (("owner-1", 1), ("owner-2", 1), ("owner-1", 2))
    ]

    assert all(refs)
    assert len({payload_ref.name for payload_ref in refs if payload_ref}) == 3


def test_a_message_says_which_acceptance_it_speaks_for() -> None:
    """It names record, owner, operation and tenant, and has the event."""
    message = message_of(job(POST), PENDING, NOW_MS)

    assert (message.topic, message.created_at_ms) == (TOPIC, NOW_MS)
    assert (message.operation, message.operation_id) == (PENDING.operation, PENDING.operation_id)
    assert message.tenant == PENDING.tenant
    assert json.loads(message.payload) == {
        "record": PENDING.pk,
        "owner": PENDING.owner,
        "event": kept(POST),
    }


def test_an_acceptance_has_one_message_id() -> None:
    """The id is the same for the same attempt of the same operation, and another for each other
    attempt, operation, and message that a handler publishes.
    """

    def message_id(**changes: Any) -> str:
        return message_of(job(POST), replace(PENDING, **changes), NOW_MS).id

    ids = [
        message_id(),
        message_id(attempt=PENDING.attempt + 1),
        message_id(operation_id=str(uuid.UUID(int=7))),
        str(uuid.uuid5(uuid.UUID(PENDING.operation_id), "message 0.0")),
    ]

    assert len(set(ids)) == 4
    assert message_id(owner="another", rev=99) == ids[0]
    assert str(uuid.UUID(ids[0])) == ids[0]


def test_what_was_written_is_what_is_read() -> None:
    """The task has the record's key, the operation, the acceptance's owner and the event."""
    body = sealed(message_of(job(POST), PENDING, NOW_MS))
    message = delivered(body)

    assert job_message_in(message.payload, message.operation_id) == JobMessage(
        pk=PENDING.pk,
        operation_id=PENDING.operation_id,
        owner=PENDING.owner,
        event=kept(POST),
    )


WHOLE: dict[str, Any] = {"record": "v1#record", "owner": "owner-1", "event": {}}
NOT_OF_ANY_KIND: list[Any] = [None, 1, []]


@pytest.mark.parametrize(
    "payload",
    [
        *(None, "text", 5, [], {}, [WHOLE]),
        *({name: WHOLE[name] for name in WHOLE if name != left} for left in WHOLE),
        *({**WHOLE, name: value} for name in WHOLE for value in NOT_OF_ANY_KIND),
    ],
)
def test_a_payload_that_is_none_is_unreadable(payload: Any) -> None:
    """It is told apart before anything is done, as other messages that nobody can read are."""
    with pytest.raises(EnvelopeUnreadable, match="tells of no accepted request"):
        job_message_in(payload, "operation-1")


def test_neither_job_nor_task_shows_the_event() -> None:
    """What is printed of them repeats no request."""
    event = with_body(POST, "the-secret-of-the-customer")
    task = JobMessage(pk="pk", operation_id="id", owner="owner", event=event)

    assert "the-secret" not in repr(job(event)) + repr(task)
