"""Credentials of the direct transport: where they come from, and when they are asked for again."""

from __future__ import annotations

import datetime as dt
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from botocore.session import Session

from oncekey.clock import elapsed_s
from oncekey.store.aws_errors import store_error
from oncekey.store.direct import credentials as sources
from oncekey.store.direct.credentials import source_in
from oncekey.store.direct.errors import CredentialRetrievalError, NoCredentialsError
from oncekey.testing.memory import ManualClock
from tests.support.peers import OK, Peer, peer, says
from tests.support.wire import ENVIRONMENT, answer

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from oncekey.store.direct.credentials import Source
    from oncekey.store.direct.signing import Credentials

HOUR_MS = 3_600_000
MINUTE_MS = 60_000


def got(source: Source, now_ms: int = 0) -> Credentials:
    """The credentials at this time."""
    return source.credentials(now_ms, elapsed_s() + 20)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"AWS_SESSION_TOKEN": "a-token"},
        {"AWS_SECURITY_TOKEN": "an-old-token"},
        {"AWS_SECURITY_TOKEN": "an-old-token", "AWS_SESSION_TOKEN": "a-token"},
        {"AWS_SESSION_TOKEN": ""},
        {"AWS_ACCOUNT_ID": "123456789012"},
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/"},
    ],
    ids=" ".join,
)
def test_credentials_of_the_environment_are_botocores(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables are read as botocore reads them, and come before every other source.

    Red when a token is missed, or the container is asked.
    """
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found: Any = Session().get_credentials()
    frozen = found.get_frozen_credentials()

    assert got(source_in(ENVIRONMENT | environment)) == (
        frozen.access_key,
        frozen.secret_key,
        frozen.token,
        frozen.account_id,
    )


def stated(key: str, expires_ms: int, **more: str) -> bytes:
    """The answer of the container's endpoint."""
    expires = dt.datetime.fromtimestamp(expires_ms / 1000, tz=dt.UTC)
    facts = {"AccessKeyId": key, "SecretAccessKey": "secret", "Token": f"token-of-{key}"}
    text = expires.isoformat().replace("+00:00", "Z")
    return answer(json.dumps({**facts, "Expiration": text, **more}).encode(), crc=False)


def container(made: Peer, **more: str) -> dict[str, str]:
    """An environment without credentials, whose container is `made`."""
    without = {name: text for name, text in ENVIRONMENT.items() if "KEY" not in name}
    url = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{made.url}/2021-04-23/credentials?id=1"}
    return {**without, **url, **more}


def test_the_containers_endpoint_gives_credentials() -> None:
    """Lambda with SnapStart has no credentials in the environment: they are fetched once, with the
    token of the environment, and kept.

    Red when the token is not sent, or every call fetches.
    """
    with peer(says(stated("one", HOUR_MS, AccountId="123456789012"))) as made:
        source = source_in(container(made, AWS_CONTAINER_AUTHORIZATION_TOKEN="a token"))
        found = [got(source, now_ms) for now_ms in (0, HOUR_MS // 2)]

    assert found[0] == ("one", "secret", "token-of-one", "123456789012")
    assert found[1] is found[0]
    ((headers, _body),) = made.requests
    assert headers["authorization"] == "a token"


def test_the_token_is_read_from_its_file_each_time(tmp_path: Path) -> None:
    """A file with the token comes before the variable, and its newest text is sent."""
    file = tmp_path / "token"
    with peer(says(stated("one", HOUR_MS))) as made:
        source = source_in(
            container(
                made,
                AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(file),
                AWS_CONTAINER_AUTHORIZATION_TOKEN="unused",
            )
        )
        for text, now_ms in (("first", 0), ("second", HOUR_MS)):
            file.write_text(text, "utf-8")
            got(source, now_ms)

    assert [headers["authorization"] for headers, _ in made.requests] == ["first", "second"]


def test_a_token_cannot_add_a_header() -> None:
    """A token with a line break is not sent."""
    with peer(says(stated("one", HOUR_MS))) as made:
        source = source_in(container(made, AWS_CONTAINER_AUTHORIZATION_TOKEN="a\r\nX-Evil: 1"))
        with pytest.raises(CredentialRetrievalError):
            got(source)

    assert made.requests == []


@pytest.mark.parametrize(
    ("url", "is_near"),
    [
        ("http://169.254.170.2/x", True),
        ("http://169.254.170.23:80/x", True),
        ("http://[fd00:ec2::23]/x", True),
        ("http://localhost:9001/x", True),
        ("http://127.0.0.9/x", True),
        ("http://[::1]:9001/x", True),
        ("https://anywhere.example/x", True),
        ("http://anywhere.example/x", False),
        ("http://169.254.170.2.example/x", False),
        ("http://127.0.0.1@anywhere.example/x", False),
        ("http://10.0.0.1/x", False),
        ("ftp://localhost/x", False),
    ],
)
def test_credentials_are_asked_for_in_the_sandbox_or_over_tls_only(
    url: str, is_near: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same hosts as with botocore: no other is asked without TLS.

    Red when a token is sent to any host that a variable names.
    """
    asked: list[Any] = []

    def connect(address: Any, *_arguments: object) -> Any:
        asked.append(address.name)
        raise ConnectionRefusedError

    monkeypatch.setattr(sources, "connect", connect)
    with pytest.raises(CredentialRetrievalError):
        got(source_in(container(Peer()) | {"AWS_CONTAINER_CREDENTIALS_FULL_URI": url}))

    assert bool(asked) is is_near


def test_the_relative_address_is_one_of_ecs(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS_CONTAINER_CREDENTIALS_RELATIVE_URI comes first, and names a path on 169.254.170.2."""
    asked: list[Any] = []

    def connect(address: Any, *_arguments: object) -> Any:
        asked.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(sources, "connect", connect)
    with pytest.raises(CredentialRetrievalError):
        got(source_in(container(Peer()) | {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/x"}))

    assert asked == [("169.254.170.2", 80)]


@pytest.mark.parametrize(
    ("left_ms", "key"), [(15 * MINUTE_MS + 1, "one"), (15 * MINUTE_MS, "two"), (-1, "two")]
)
def test_credentials_are_asked_for_again_before_they_expire(left_ms: int, key: str) -> None:
    """From fifteen minutes before the expiry on, new credentials are fetched.

    Red when expired credentials are used.
    """
    with peer(says(stated("one", HOUR_MS)), says(stated("two", 3 * HOUR_MS))) as made:
        source = source_in(container(made))
        got(source)

        assert got(source, HOUR_MS - left_ms).access_key == key


@pytest.mark.parametrize("left_ms", [15 * MINUTE_MS, 11 * MINUTE_MS])
def test_good_credentials_are_used_while_there_are_no_new_ones(left_ms: int) -> None:
    """A failure is nobody's as long as the old credentials are good for ten minutes; the endpoint
    is asked again after ten seconds, and not by every call.

    Red when a call fails though its credentials are good.
    """
    failing = answer(b"{}", status=500, crc=False)
    with peer(says(stated("one", HOUR_MS)), says(failing)) as made:
        source = source_in(container(made))
        first = got(source)
        now_ms = HOUR_MS - left_ms
        assert [got(source, now_ms + later) for later in (0, 9_999)] == [first, first]
        assert len(made.requests) == 2
        assert got(source, now_ms + 10_000) is first
        assert len(made.requests) == 3
        with pytest.raises(CredentialRetrievalError):
            got(source, HOUR_MS - 10 * MINUTE_MS)


def test_credentials_are_used_until_ten_minutes_before_their_end() -> None:
    """A moment before its last ten minutes, a credential is used though there is no new one.

    Red when a call fails earlier than botocore's.
    """
    failing = answer(b"{}", status=500, crc=False)
    with peer(says(stated("one", HOUR_MS)), says(failing)) as made:
        source = source_in(container(made))
        first = got(source)

        assert got(source, HOUR_MS - 10 * MINUTE_MS - 1) is first


@pytest.mark.parametrize(
    "said",
    [
        answer(b"{}", status=404),
        answer(b"{}"),
        answer(b"[]"),
        answer(b"no json"),
        answer(b'{"AccessKeyId":"a","SecretAccessKey":"b","Token":"c","Expiration":"soon"}'),
    ],
)
def test_an_endpoint_without_credentials_is_an_outage_before_anything_is_sent(said: bytes) -> None:
    """Nothing was sent to DynamoDB, and waiting may help: as with botocore.

    Red when that counts as a mistake, or as a write that may have been applied.
    """
    with peer(says(said)) as made, pytest.raises(CredentialRetrievalError) as raised:
        got(source_in(container(made)))

    failure = store_error(raised.value)
    assert (failure.is_outage, failure.is_harmless) == (True, True)


def test_a_second_thread_uses_the_old_credentials_meanwhile() -> None:
    """While one thread fetches, the others go on with credentials that are good; where there are
    none, they wait, and only one fetches.

    Red when all threads stop for each refresh, or each of them fetches.
    """
    asked, release = threading.Event(), threading.Event()

    def slow(made: Peer) -> Any:
        def script(connection: socket.socket) -> None:
            made.receive(connection)
            asked.set()
            release.wait()
            connection.sendall(stated("two", 3 * HOUR_MS))

        return script

    with peer(says(stated("one", HOUR_MS)), slow) as made:
        source = source_in(container(made))
        got(source)
        found: list[Credentials] = []

        def late(now_ms: int) -> None:
            found.append(got(source, now_ms))

        first = threading.Thread(target=late, args=(HOUR_MS - 15 * MINUTE_MS,))
        first.start()
        asked.wait()
        assert got(source, HOUR_MS - 15 * MINUTE_MS).access_key == "one"
        others = [threading.Thread(target=late, args=(HOUR_MS,)) for _ in range(3)]
        for other in others:
            other.start()
        release.set()
        for thread in (first, *others):
            thread.join()

    assert [each.access_key for each in found] == ["two"] * 4
    assert len(made.requests) == 2


def test_a_thread_does_not_wait_longer_than_its_call() -> None:
    """A refresh that hangs in another thread ends a call at its deadline."""
    source: Any = source_in(container(Peer()))
    source._asking.acquire()

    with pytest.raises(CredentialRetrievalError):
        source.credentials(0, elapsed_s() + 0.05)


class Chain:
    """In place of the credentials that botocore found."""

    def __init__(self) -> None:
        self.key = "one"

    def get_frozen_credentials(self) -> Any:
        """Those of now."""
        from botocore.credentials import ReadOnlyCredentials

        return ReadOnlyCredentials(self.key, "secret", "token", None)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://localhost", "BOTO_CONFIG": "a-file"},
        {"AWS_WEB_IDENTITY_TOKEN_FILE": "a-file"},
        {"AWS_ACCESS_KEY_ID": "a", "AWS_CREDENTIAL_EXPIRATION": "2026-12-01T00:00:00Z"},
    ],
    ids=" ".join,
)
def test_botocores_chain_finds_all_other_credentials(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Web identity, instances and old files are botocore's; what it refreshes is used at once.

    Red when a source is passed over, or refreshed credentials are not noticed.
    """
    chain = Chain()
    monkeypatch.setattr(Session, "get_credentials", lambda _session: chain)
    source = source_in(environment)

    first = got(source)
    assert got(source) is first
    chain.key = "two"
    assert (first.access_key, got(source).access_key) == ("one", "two")


def test_an_old_file_comes_before_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is a ~/.boto, botocore's chain is asked, which reads it first."""
    monkeypatch.setenv("HOME", str(tmp_path))
    asked: list[bool] = []
    monkeypatch.setattr(sources, "connect", lambda *_: asked.append(True))
    monkeypatch.setattr(Session, "get_credentials", lambda _session: Chain())
    (tmp_path / ".boto").touch()

    assert got(source_in(container(Peer()))).access_key == "one"
    assert not asked


@pytest.mark.parametrize("environment", [{}, {"AWS_ACCESS_KEY_ID": "a"}], ids=repr)
def test_no_credentials_are_a_matter_of_the_deployment(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has credentials, or half of them are missing: waiting does not help.

    Red when that counts as an outage.
    """
    monkeypatch.setattr(Session, "get_credentials", lambda _session: None)

    with pytest.raises(NoCredentialsError) as raised:
        got(source_in(environment))

    failure = store_error(raised.value)
    assert (failure.transient, failure.kind) == (False, "configuration")


def test_new_credentials_sign_the_next_call_and_lead_to_their_accounts_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call is signed with the credentials of its time, and goes to their account's host.

    Red when a signer outlives its credentials, or a connection to another host is used.
    """
    said = [stated("one", HOUR_MS), stated("two", 9 * HOUR_MS, AccountId="123456789012")]
    # A second before new credentials are asked for, so that the connection is still young then.
    clock = ManualClock(HOUR_MS - 15 * MINUTE_MS - 1_000)
    with peer(*map(says, said)) as metadata, peer(says(OK)) as made:
        port = int(made.url.rpartition(":")[2])
        client = made.client(
            clock=clock,
            AWS_ACCESS_KEY_ID="",
            AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{metadata.url}/credentials",
        )
        by_account = client._endpoint._replace(by_account=f".localhost:{port}")
        monkeypatch.setattr(client, "_endpoint", by_account)
        monkeypatch.setattr(
            "oncekey.store.direct.connection._resolved",
            lambda address, _deadline_s: [(2, 1, 6, "", ("127.0.0.1", address.port))],
        )
        client.get_item(TableName="t", Key={})
        clock.advance(1_000)
        client.get_item(TableName="t", Key={})

    (first, _), (second, _) = made.requests
    assert "Credential=one/19700101/eu-central-1/dynamodb" in first["authorization"]
    assert first["host"] == f"127.0.0.1:{port}"
    assert "Credential=two/" in second["authorization"]
    assert second["host"] == f"123456789012.localhost:{port}"
    assert second["x-amz-security-token"] == "token-of-two"
    assert made.accepted == 2
