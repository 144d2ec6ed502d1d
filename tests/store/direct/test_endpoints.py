"""The endpoint of the direct transport is botocore's, or boto3 is used."""

from __future__ import annotations

import itertools
import logging
import runpy
import select
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.endpoint_provider import EndpointProvider
from botocore.loaders import Loader

from oncekey import ConfigurationError, DynamoDBStore
from oncekey.settings import settings_from
from oncekey.store.direct import connection
from oncekey.store.direct.client import DirectClient
from oncekey.store.direct.endpoint import Address, LeftToBoto3, address_of, endpoint_in
from oncekey.store.dynamodb import client as dynamodb_client
from tests.support.wire import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCOUNT = "123456789012"


@cache
def partitions() -> dict[str, Any]:
    """Botocore's table of partitions."""
    loaded: dict[str, Any] = Loader().load_data("partitions")
    return loaded


def regions() -> Iterator[str]:
    """Every Region that botocore knows, with its names for a whole partition."""
    for partition in partitions()["partitions"]:
        yield from partition["regions"]


@cache
def botocores() -> EndpointProvider:
    """Botocore's rules of DynamoDB's endpoints."""
    rules = Loader().load_service_model("dynamodb", "endpoint-rule-set-1")
    return EndpointProvider(rules, partitions())


@pytest.fixture(autouse=True)
def _logs_anew() -> Iterator[None]:
    dynamodb_client._log_that_boto3_is_used.cache_clear()
    yield
    dynamodb_client._log_that_boto3_is_used.cache_clear()


@pytest.mark.parametrize("is_fips", [False, True])
@pytest.mark.parametrize("is_dual", [False, True])
@pytest.mark.parametrize("mode", [None, "preferred", "disabled", "required"])
def test_the_endpoint_of_every_region_is_botocores(
    is_fips: bool, is_dual: bool, mode: str | None
) -> None:
    """In every partition (China, GovCloud and the isolated ones too), with FIPS, dual-stack and the
    endpoints of accounts, the host is the one that botocore's rules give.

    Red when a domain is wrong, or an account's endpoint is used where there is none.
    """
    for region, account in itertools.product(regions(), (None, ACCOUNT)):
        environment = {**ENVIRONMENT, "AWS_DEFAULT_REGION": region}
        environment |= {"AWS_USE_FIPS_ENDPOINT": "true"} if is_fips else {}
        environment |= {"AWS_USE_DUALSTACK_ENDPOINT": "true"} if is_dual else {}
        environment |= {"AWS_ACCOUNT_ID_ENDPOINT_MODE": mode} if mode else {}
        try:
            host = endpoint_in(environment).host_for(account)
        except LeftToBoto3:
            # A name for a whole partition, and a mode that may end in an error.
            assert region.endswith("-global") or mode == "required"
            continue
        found = botocores().resolve_endpoint(
            Region=region,
            UseFIPS=is_fips,
            UseDualStack=is_dual,
            AccountId=account,
            AccountIdEndpointMode=mode or "preferred",
        )
        assert f"https://{host}" == found.url


CONFIGURED = {
    "http://127.0.0.1:8000": ("127.0.0.1:8000", Address("127.0.0.1", 8000), False),
    "https://vpce-1.example/": ("vpce-1.example", Address("vpce-1.example", 443), True),
    "https://a.example:443": ("a.example", Address("a.example", 443), True),
    "http://[::1]:8000": ("[::1]:8000", Address("::1", 8000), False),
    "http://[::1]": ("[::1]", Address("::1", 80), False),
}


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"])
@pytest.mark.parametrize("url", CONFIGURED)
def test_a_configured_endpoint_is_used(name: str, url: str) -> None:
    """The endpoint of DynamoDB's own variable comes before the general one; the usual port is left
    out of the header, and an account has no endpoint of its own.

    Red when the Region's endpoint is used in spite of it.
    """
    host, address, tls = CONFIGURED[url]

    endpoint = endpoint_in(
        ENVIRONMENT | {"AWS_ENDPOINT_URL": "http://general.example"} | {name: url}
    )

    assert (endpoint.host_for(ACCOUNT), bool(endpoint.certificates)) == (host, tls)
    assert address_of(host, tls=tls) == address


def test_a_configured_endpoint_may_be_ignored() -> None:
    """AWS_IGNORE_CONFIGURED_ENDPOINT_URLS leads to the endpoint of the Region."""
    ignored = {"AWS_ENDPOINT_URL": "http://h", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}

    assert endpoint_in(ENVIRONMENT | ignored).host == "dynamodb.eu-central-1.amazonaws.com"


LEFT = {
    "no Region": {"AWS_DEFAULT_REGION": ""},
    "unknown Region": {"AWS_DEFAULT_REGION": "moon-north-1"},
    "pseudo Region": {"AWS_DEFAULT_REGION": "aws-global"},
    "local": {"AWS_DEFAULT_REGION": "local"},
    "profile": {"AWS_PROFILE": "someone"},
    "old profile": {"AWS_DEFAULT_PROFILE": "someone"},
    "configuration file": {"AWS_CONFIG_FILE": __file__},
    "credentials file": {"AWS_SHARED_CREDENTIALS_FILE": __file__},
    "account's endpoint required": {"AWS_ACCOUNT_ID_ENDPOINT_MODE": "required"},
    "endpoint discovery": {"AWS_ENDPOINT_DISCOVERY_ENABLED": "true"},
    "proxy": {"HTTPS_PROXY": "http://proxy.example:3128"},
    "proxy in small letters": {"https_proxy": "http://proxy.example:3128"},
    "proxy without TLS": {"AWS_ENDPOINT_URL": "http://h", "http_proxy": "http://proxy.example"},
    "path": {"AWS_ENDPOINT_URL": "http://h/path"},
    "password": {"AWS_ENDPOINT_URL": "http://user:secret@h/"},
    "FIPS beside an endpoint": {"AWS_ENDPOINT_URL": "https://h", "AWS_USE_FIPS_ENDPOINT": "true"},
}


@pytest.mark.parametrize("name", LEFT)
def test_what_only_boto3_follows_is_left_to_boto3(name: str) -> None:
    """A configuration whose endpoint, proxy or credentials only boto3 works out is not guessed at.

    Red when a request would go somewhere else than boto3's.
    """
    with pytest.raises(LeftToBoto3):
        endpoint_in(ENVIRONMENT | LEFT[name])


def test_a_system_without_poll_is_left_to_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has neither `select.poll` nor its flags: the transport can be imported there, and
    leaves its calls to boto3.
    """
    for name in [each for each in vars(select) if each == "poll" or each.startswith("POLL")]:
        monkeypatch.delattr(select, name)

    runpy.run_path(str(connection.__file__))
    with pytest.raises(LeftToBoto3, match="cannot poll sockets"):
        endpoint_in(ENVIRONMENT)


def test_boto3_carries_the_calls_if_the_direct_transport_cannot_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With a proxy, two stores get clients of boto3's, and one warning tells why.

    Red when nothing is logged, each store logs, or the call fails.
    """
    monkeypatch.setenv("ONCEKEY_TRANSPORT", "direct")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")

    with caplog.at_level(logging.WARNING, "oncekey"):
        clients = [DynamoDBStore("a-table")._connected() for _ in range(2)]

    assert all(hasattr(client, "meta") for client in clients)
    (line,) = caplog.records
    assert "because a proxy is configured" in line.getMessage()


def test_the_variable_or_the_argument_chooses_the_transport(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """boto3 is the default; ONCEKEY_TRANSPORT changes it, and an argument comes first.

    Red when the direct transport is on by itself, or the argument is not looked at.
    """

    def is_direct(store: DynamoDBStore) -> bool:
        return isinstance(store._connected(), DirectClient)

    assert not is_direct(DynamoDBStore("a-table"))
    assert is_direct(DynamoDBStore("a-table", transport="direct"))
    monkeypatch.setenv("ONCEKEY_TRANSPORT", "direct")
    assert is_direct(DynamoDBStore("a-table"))
    assert not is_direct(DynamoDBStore("a-table", transport="sdk"))


def test_another_transport_is_refused() -> None:
    """A value that names no transport is a fault of the configuration, with the possible ones."""
    with pytest.raises(ConfigurationError, match="'quick': one of sdk, direct is needed"):
        settings_from({"ONCEKEY_TRANSPORT": "quick"}, {})
    with pytest.raises(ConfigurationError, match="'quick': one of sdk, direct is needed"):
        DynamoDBStore("a-table", transport="quick")


def test_a_transport_beside_a_client_is_refused() -> None:
    """A given client has a transport already, so nobody believes that the argument changes it."""
    client = boto3.client("dynamodb", region_name="eu-central-1")

    with pytest.raises(ConfigurationError, match="leave out either it or client="):
        DynamoDBStore("a-table", client=client, transport="direct")
