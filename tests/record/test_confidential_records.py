"""What the table says of keys, callers and requests; requests without a key."""

from __future__ import annotations

import json

import pytest

from oncekey import jwt_claim
from tests.support.dynamodb import dynamodb_table, items, store_on
from tests.support.events import load, with_body, with_key
from tests.support.protected import (
    Protected,
    is_replay,
    problem_of,
    records,
)

POST = load("apigw_http_v2_post")


def test_secrets_of_fingerprints_rotate_without_refusing_a_retry() -> None:
    """No secret, then one, then a newer one with the older kept: the retry of each is a replay, and
    another body is still another request.

    Red when a fingerprint is compared by the newest secret only.
    """
    first, second = b"first secret 0123", b"second secret 012"
    plain = Protected()
    keyed = Protected(store=plain.store, fingerprint_secrets=[first])
    rotated = Protected(store=plain.store, fingerprint_secrets=lambda: [second, first])
    events = [with_key(POST, f"key-of-service-{number}") for number in range(3)]
    for service, event in zip((plain, keyed, rotated), events, strict=True):
        service.send(event)

    assert all(is_replay(rotated.send(event)) for event in events)
    for event in events:
        other = with_body(event, '{"amount": 2}')
        assert problem_of(rotated.send(other))[:2] == (422, "key-reused")
    stored = {record.fingerprint for record in records(rotated)}
    assert len(stored) == 3


def test_a_secret_that_was_taken_away_refuses_the_retries_of_its_time() -> None:
    """Dropping a secret too early costs refusals (422), never a wrong replay or a second run.

    Red when a fingerprint that cannot be checked is let through.
    """
    old = Protected(fingerprint_secrets=[b"first secret 0123"])
    old.send(POST)
    new = Protected(store=old.store, fingerprint_secrets=[b"second secret 012"])

    assert problem_of(new.send(POST))[:2] == (422, "key-reused")
    assert new.runs == []


def test_secrets_come_from_the_environment_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONCEKEY_FINGERPRINT_SECRETS, words with the newest first, makes fingerprints HMACs.

    Red when the variable is not read, or read once for ever.
    """
    service = Protected()
    service.send(POST)
    monkeypatch.setenv("ONCEKEY_FINGERPRINT_SECRETS", "newest-0123456789 older-0123456789")
    service.send(with_key(POST, "under-the-newest-1"))
    monkeypatch.setenv("ONCEKEY_FINGERPRINT_SECRETS", "newest-0123456789")

    assert is_replay(service.send(with_key(POST, "under-the-newest-1")))
    assert len({record.fingerprint for record in records(service)}) == 2


def test_a_key_is_optional_where_it_is_not_required(caplog: pytest.LogCaptureFixture) -> None:
    """With `required=False` a request without a key runs each time and is logged; one with a key is
    protected.

    Red when the key is ignored, or unprotected runs are silent.
    """
    service = Protected(required=False)
    caplog.set_level("INFO", "oncekey")

    bare = [service.send(with_key(POST))["body"] for _ in range(2)]
    said = [vars(entry).get("oncekey_event") for entry in caplog.records]
    protected = [service.send(POST)["body"] for _ in range(2)]

    assert bare == ['{"run": 1}', '{"run": 2}']
    assert said == ["unprotected"] * 2
    assert protected == ['{"run": 3}'] * 2


@pytest.mark.requirement("D14")
def test_keys_and_principals_can_be_kept_out_of_the_table() -> None:
    """With `store_raw_key=False` neither key nor principal stands anywhere in the item, which still
    protects and replays.

    Red when either is stored, in whatever attribute.
    """
    event = with_key(POST, "jane.doe@example.com/1")
    with dynamodb_table() as table:
        service = Protected(
            store=store_on(table), store_raw_key=False, principal=jwt_claim("sub"), min_key_length=4
        )
        first, replay = service.send(event), service.send(event)
        (item,) = items(table)

    principal = event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]
    assert first["body"] == replay["body"] == '{"run": 1}'
    assert "jane.doe" not in str(item)
    assert principal not in str(item)
    assert "key" not in item
    assert "principal" not in item


@pytest.mark.requirement("D14")
def test_a_principal_that_is_not_stored_still_narrows_the_scope_of_a_key() -> None:
    """Two principals with one key are two operations, whether or not they are stored in clear.

    Red when what is not stored is not part of the identity either.
    """
    service = Protected(
        store_raw_key=False, principal=lambda context: str(context["http"]["sourceIp"])
    )
    other = json.loads(json.dumps(POST))
    other["requestContext"]["http"]["sourceIp"] = "203.0.113.9"

    assert service.send(POST)["body"] != service.send(other)["body"]
    assert len(records(service)) == 2
