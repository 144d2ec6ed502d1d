"""DynamoDB's endpoint, as boto3 finds it; or the reason why the transport is left to boto3.

https://docs.aws.amazon.com/sdkref/latest/guide/feature-endpoints.html
"""

from __future__ import annotations

import re
import select
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from oncekey.store.direct.certificates import NO_CERTIFICATES, Certificates, trusted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# The Regions of each partition, with its two domains. These names are botocore's; a test compares
# all of its Regions. A Region of no partition here is left to boto3.
_PARTITIONS = (
    ("aws", r"(us|eu|ap|sa|ca|me|af|il|mx)-[a-z]+-\d+", "amazonaws.com", "api.aws"),
    ("aws-us-gov", r"us-gov-[a-z]+-\d+", "amazonaws.com", "api.aws"),
    ("aws-cn", r"cn-[a-z]+-\d+", "amazonaws.com.cn", "api.amazonwebservices.com.cn"),
    ("aws-eusc", r"eusc-de-[a-z]+-\d+", "amazonaws.eu", "api.amazonwebservices.eu"),
    ("aws-iso", r"us-iso-[a-z]+-\d+", "c2s.ic.gov", "api.aws.ic.gov"),
    ("aws-iso-b", r"us-isob-[a-z]+-\d+", "sc2s.sgov.gov", "api.aws.scloud"),
    ("aws-iso-e", r"eu-isoe-[a-z]+-\d+", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"),
    ("aws-iso-f", r"us-isof-[a-z]+-\d+", "csp.hci.ic.gov", "api.aws.hci.ic.gov"),
)
# Outside the partition `aws`, accounts have endpoints of their own in these Regions.
_WITH_ACCOUNTS = {"us-gov-east-1", "us-gov-west-1", "cn-north-1", "cn-northwest-1"}
_ENDPOINT_URL = re.compile(r"(https?)://([a-z0-9.-]+|\[[0-9a-f:]+\])(?::(\d{1,5}))?/?")
_DEFAULT_PORT = {"http": 80, "https": 443}
# Both files can name a Region, endpoints and roles, by profile.
_FILES = {
    "AWS_CONFIG_FILE": "~/.aws/config",
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
}
_MODES = ("preferred", "disabled")


class LeftToBoto3(Exception):  # noqa: N818 -- a decision, and no error
    """This configuration is one that only boto3 follows. The text says which."""


class Address(NamedTuple):
    """A name or an IP address, and a port."""

    name: str
    port: int


class Endpoint(NamedTuple):
    """Where requests go, and what they are signed for.

    Attributes:
        host: the host of a Region's endpoint, or of the configured one, as the header has it.
        by_account: what follows an account's id in the host of its own endpoint, if it has one.
        certificates: those that are trusted; None for a connection without TLS.
    """

    region: str
    host: str
    by_account: str | None
    certificates: Certificates | None

    def host_for(self, account_id: str | None) -> str:
        """The host for the requests of this account."""
        return f"{account_id}{self.by_account}" if account_id and self.by_account else self.host


def address_of(host: str, *, tls: bool) -> Address:
    """The address of a host as the header has it."""
    name, _, port = host.rpartition(":")
    if not name or port.endswith("]"):
        name, port = host, ""
    return Address(name.strip("[]"), int(port or _DEFAULT_PORT["https" if tls else "http"]))


def endpoint_in(environment: Mapping[str, str]) -> Endpoint:
    """The endpoint that the environment describes.

    Raises:
        LeftToBoto3: it describes one that only boto3 finds.
    """
    if reason := next(_reasons(environment), None):
        raise LeftToBoto3(reason)
    region = environment["AWS_DEFAULT_REGION"]
    given = _configured(environment)
    if given:
        found = _ENDPOINT_URL.fullmatch(given)
        if found is None:
            raise LeftToBoto3(
                "the configured endpoint has a path,"
                " or is not a URL that the direct transport supports"
            )
        scheme, name, port = found.groups()
        is_usual = not port or int(port) == _DEFAULT_PORT[scheme]
        certificates = _trusted(environment) if scheme == "https" else None
        return Endpoint(region, name if is_usual else f"{name}:{port}", None, certificates)
    is_fips, is_dual = _flags(environment)
    for partition, pattern, domain, dual_domain in _PARTITIONS:
        if re.fullmatch(pattern, region):
            is_plain = is_fips and partition == "aws-us-gov" and not is_dual
            service = "dynamodb-fips" if is_fips and not is_plain else "dynamodb"
            suffix = f".{region}.{dual_domain if is_dual else domain}"
            is_preferred = _mode(environment) == "preferred" and not is_fips
            has_accounts = partition == "aws" or region in _WITH_ACCOUNTS
            by_account = f".ddb{suffix}" if is_preferred and has_accounts else None
            return Endpoint(region, service + suffix, by_account, _trusted(environment))
    raise LeftToBoto3(f"the Region {region!r} is in no partition known here")


def _reasons(environment: Mapping[str, str]) -> Iterator[str]:
    """Why only boto3 finds the endpoint, or the way to it."""
    if not environment.get("AWS_DEFAULT_REGION"):
        yield "AWS_DEFAULT_REGION is not set"
    if any(environment.get(name) for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE")):
        yield "a profile is chosen"
    for name, usual in _FILES.items():
        if Path(environment.get(name) or usual).expanduser().is_file():
            yield f"there is a file of the AWS configuration ({name})"
    given = _configured(environment)
    if given and True in _flags(environment):
        yield "an endpoint is configured beside FIPS or dual-stack"
    if _mode(environment) not in _MODES:
        yield "AWS_ACCOUNT_ID_ENDPOINT_MODE is neither preferred nor disabled"
    if _is_true(environment, "AWS_ENDPOINT_DISCOVERY_ENABLED"):
        yield "endpoint discovery is on"
    proxy = "http_proxy" if given.startswith("http:") else "https_proxy"
    if environment.get(proxy) or environment.get(proxy.upper()):
        yield "a proxy is configured"
    if not hasattr(select, "poll"):
        yield "this system cannot poll sockets"


def _configured(environment: Mapping[str, str]) -> str:
    if _is_true(environment, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"):
        return ""
    names = ("AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL")
    return next((url for name in names if (url := environment.get(name, ""))), "")


def _flags(environment: Mapping[str, str]) -> tuple[bool, bool]:
    names = ("AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT")
    is_fips, is_dual = (_is_true(environment, name) for name in names)
    return is_fips, is_dual


def _mode(environment: Mapping[str, str]) -> str:
    return environment.get("AWS_ACCOUNT_ID_ENDPOINT_MODE", "preferred").lower()


def _is_true(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() == "true"


def _trusted(environment: Mapping[str, str]) -> Certificates:
    certificates = trusted(environment)
    if certificates is None:
        raise LeftToBoto3(NO_CERTIFICATES)
    return certificates
