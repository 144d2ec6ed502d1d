"""What differs between stages: one checked, frozen value for each."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from infra.layer_requirements import LayerTarget, target_faults

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


T = TypeVar("T", bound=StrEnum)


class Stage(StrEnum):
    """What a deployment is for. It decides whether data is kept when it is deleted."""

    DEV = "dev"
    PRODUCTION = "production"


class RolloutPlan(StrEnum):
    """How a deployment moves the traffic to new versions of the functions."""

    # Without an alias: the functions themselves are called.
    NONE = "none"
    AT_ONCE = "at-once"
    CANARY = "canary"
    LINEAR = "linear"


# Used in a dev template until `-c jwt_issuer=...` names the real one. API Gateway looks the issuer
# up when it creates the authorizer, so a deployment without a real one fails and is never open.
EXAMPLE_ISSUER = "https://issuer.example.com/"
EXAMPLE_AUDIENCE = "payments"
# The reference service's, unless `-c name=...` is given.
EXAMPLE_NAME = "payments"
# A place for templates that are not deployed.
EXAMPLE_ACCOUNT = "123456789012"
EXAMPLE_REGION = "us-east-1"


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Everything that differs between deployments.

    Its name and stage, together, tell it from the others in one account and Region.
    """

    name: str
    stage: Stage
    # Tables are kept when their stack is deleted, and are protected against deletion.
    keeps_data: bool
    log_retention_days: int
    # The throttle of the API's stage, for all callers together.
    requests_per_second: int
    burst_requests: int
    jwt_issuer: str
    jwt_audience: str
    provider_url: str
    # The Secrets Manager secret that holds the provider's API key. It exists before the deployment.
    provider_api_key_secret: str
    # The same for the secrets that the provider signs its webhooks with.
    webhook_secret: str
    # The functions' Python and processor, for which the layer is made.
    runtime: LayerTarget
    rollout: RolloutPlan
    # The provider's customer that the canary charges. Empty: there is no canary.
    canary_customer: str
    # The secret with the canary's client at the issuer.
    canary_client_secret: str
    # Where it may be deployed. None is wherever the credentials lead, in dev only.
    account: str | None = None
    region: str | None = None

    @property
    def prefix(self) -> str:
        """What the names of its stacks begin with."""
        return f"{self.name}-{self.stage}"


@dataclass(frozen=True, kw_only=True)
class _Profile:
    keeps_data: bool
    log_retention_days: int
    requests_per_second: int
    burst_requests: int
    rollout: RolloutPlan
    defaults: Mapping[str, str]


_PROFILES = {
    Stage.DEV: _Profile(
        keeps_data=False,
        log_retention_days=7,
        requests_per_second=20,
        burst_requests=40,
        # A deployment is to take seconds.
        rollout=RolloutPlan.NONE,
        defaults={
            "jwt_issuer": EXAMPLE_ISSUER,
            "jwt_audience": EXAMPLE_AUDIENCE,
            "provider_url": "https://api.stripe.com",
        },
    ),
    Stage.PRODUCTION: _Profile(
        keeps_data=True,
        # Longer than the longest dispute about a payment.
        log_retention_days=180,
        # The account's default limit is 10,000 a second. One service must not use all of it.
        requests_per_second=500,
        burst_requests=1000,
        rollout=RolloutPlan.CANARY,
        defaults={"provider_url": "https://api.stripe.com"},
    ),
}

# The default of each secret's name ends so.
_SECRETS = {
    "provider_api_key_secret": "provider-api-key",
    "webhook_secret": "webhook-secret",
    "canary_client_secret": "canary-client",
}
# The names that `-c name=value` accepts.
CONTEXT_NAMES = (
    "stage",
    "name",
    "jwt_issuer",
    "jwt_audience",
    "provider_url",
    "provider_api_key_secret",
    "webhook_secret",
    "python_version",
    "architecture",
    "rollout",
    "canary_customer",
    "canary_client_secret",
    "account",
    "region",
)
# Names with these characters belong to the CDK or to packages for it.
_OF_THE_CDK = ("@", ":")
# The CDK's command line adds these.
_OF_THE_COMMAND_LINE = frozenset({"acknowledged-issue-numbers", "cli-telemetry"})
# The same in every stage.
_RUNTIME = {
    "python_version": LayerTarget.python_version,
    "architecture": LayerTarget.architecture,
}
_NEEDED = ("jwt_issuer", "jwt_audience", "provider_url", *_SECRETS)
_URLS = ("jwt_issuer", "provider_url")
# CloudFormation's rule for the names of stacks, which end with more.
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]{0,63}")
# https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_CreateSecret.html
_SECRET_NAME = re.compile(r"[A-Za-z0-9/_+=.@-]{1,512}")
_PLACE = {
    "account": re.compile(r"\d{12}"),
    "region": re.compile(r"[a-z]{2}(-[a-z]+)+-\d"),
}


def environment_from(context: Mapping[str, object]) -> Environment:
    """Build the environment that the CDK's context asks for.

    Args:
        context: The context values that were given, by name. The others take the stage's default.

    Raises:
        ValueError: The stage is unknown, or values are missing or malformed; all are named.
    """
    stage = _chosen(Stage, "stage", context.get("stage", Stage.DEV))
    profile = _PROFILES[stage]
    rollout = _chosen(RolloutPlan, "rollout", context.get("rollout") or profile.rollout)
    name = str(context.get("name") or EXAMPLE_NAME)
    secrets = {each: f"oncekey/{name}-{stage}/{end}" for each, end in _SECRETS.items()}
    defaults = {**profile.defaults, **secrets}
    values = {each: str(context.get(each) or defaults.get(each) or "") for each in _NEEDED}
    runtime = {name: str(context.get(name) or default) for name, default in _RUNTIME.items()}
    faults = [
        f"{name} is missing: stage {stage} has no default, pass -c {name}=..."
        for name, value in values.items()
        if not value
    ]
    faults += [
        f"{name} must be an https:// URL, not {values[name]!r}"
        for name in _URLS
        if values[name]
        and not _is_https(values[name])
        and not (stage is Stage.DEV and _is_loopback(values[name]))
    ]
    faults += [
        f"{name} {values[name]!r} is no name of a secret: give its name, and not its ARN"
        for name in _SECRETS
        if context.get(name) and not _SECRET_NAME.fullmatch(values[name])
    ]
    faults += target_faults(**runtime)
    if not _NAME.fullmatch(name):
        faults.append(f"name {name!r}: use up to 64 letters, digits and hyphens, a letter first")
    place = {name: str(context[name]) for name in _PLACE if context.get(name)}
    faults += _place_faults(stage, place)
    if faults:
        raise ValueError("the context is wrong: " + "; ".join(faults))
    return Environment(
        name=name,
        stage=stage,
        keeps_data=profile.keeps_data,
        log_retention_days=profile.log_retention_days,
        requests_per_second=profile.requests_per_second,
        burst_requests=profile.burst_requests,
        runtime=LayerTarget(**runtime),
        rollout=rollout,
        canary_customer=str(context.get("canary_customer") or ""),
        **place,
        **values,
    )


def unknown_names(context: Iterable[str]) -> list[str]:
    """The faults in the names of context values. A misspelled one would have no effect.

    Args:
        context: All names in the CDK's context, also its own and those of its packages.
    """
    faults = []
    for name in sorted(context):
        if name in CONTEXT_NAMES or name in _OF_THE_COMMAND_LINE or {*_OF_THE_CDK} & {*name}:
            continue
        near = difflib.get_close_matches(name.lower().replace("-", "_"), CONTEXT_NAMES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(CONTEXT_NAMES)}"
        faults.append(f"-c {name} is unknown: {hint}")
    return faults


def _chosen(kind: type[T], name: str, value: object) -> T:
    try:
        return kind(str(value))
    except ValueError:
        known = " or ".join(f"-c {name}={each}" for each in kind)
        raise ValueError(f"{name} {value!r} is unknown: pass {known}") from None


def _place_faults(stage: Stage, place: Mapping[str, str]) -> Iterator[str]:
    if stage is Stage.PRODUCTION:
        # The credentials at hand may be those of another account.
        for name in sorted(_PLACE.keys() - place.keys()):
            yield f"{name} is missing: stage {stage} names its only place, pass -c {name}=..."
    elif len(place) == 1:
        yield "account and region belong together: pass both, or neither"
    for name, value in place.items():
        if not _PLACE[name].fullmatch(value):
            yield f"{name} {value!r} is malformed: such as 123456789012 and eu-central-1"


def _is_https(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" and bool(parts.hostname)


def _is_loopback(url: str) -> bool:
    # An emulator's functions run on the machine of the stand-ins that they call. In Lambda nothing
    # listens there.
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname in {"127.0.0.1", "localhost"}
