"""Settings: from keyword arguments, else from the environment, else the defaults."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING

from oncekey.errors import ConfigurationError
from oncekey.value import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

_logger = logging.getLogger("oncekey")

# The AWS SDK for Python, or connections of our own.
TRANSPORTS = ("sdk", "direct")
IN_PROGRESS_POLICIES = ("conflict", "wait", "accepted")

# Clocks of Lambda hosts agree within milliseconds (Amazon Time Sync); five seconds also cover a
# host that lost its source for a while. The margin is time that a client waits longer after a
# crash, nothing else.
LEASE_MARGIN_MS = 5_000
# Outside Lambda nothing kills a handler. The author must make sure that it ends within this time.
DEFAULT_LEASE_MS = 60_000
# How long after a dead owner's lease a call that it sent may still arrive at a provider.
RECONCILE_GRACE_MS = 60_000
# Clients such as Stripe's may retry a key for a day. A retry after the record has expired would run
# again.
RETENTION_S = 24 * 3600
# Below the 29 s after which API Gateway gives up.
WAIT_UP_TO_MS = 10_000
# A backlog of minutes is usual. A client that has waited for an hour has given up.
START_WITHIN_MS = 3_600_000
DUE_SHARDS = 16
# A healthy call within a Region takes single-digit milliseconds. A call that takes longer than this
# is sent again. That is safe, because every write is conditional.
STORE_TIMEOUT_MS = 1_500
PROBLEM_BASE = "urn:oncekey:problem:"


_DAY_S = 24 * 3600
# Wider than any sensible value, and still within the range of dates and of DynamoDB's TTL.
_RANGES = {
    "lease_margin_ms": (0, 3_600_000),
    "default_lease_ms": (1, 1000 * _DAY_S),
    "max_lease_ms": (1, 1000 * _DAY_S),
    "reconcile_grace_ms": (0, 7 * 1000 * _DAY_S),
    "retention_s": (1, 3650 * _DAY_S),
    "gone_for_s": (0, 3650 * _DAY_S),
    "wait_up_to_ms": (0, 900_000),
    "start_within_ms": (1_000, 14 * 1000 * _DAY_S),
    "due_shards": (0, 1000),
    "store_timeout_ms": (1, 60_000),
    "pause_check_s": (0, 3_600),
}
MAX_KEY_LENGTH = 255


class Settings(Value, kw_only=True):
    """How one operation behaves.

    Args:
        lease_margin_ms: added to the Lambda's real deadline; must exceed the difference between any
            two hosts' clocks.
        default_lease_ms: the lease where there is no Lambda context.
        max_lease_ms: an upper bound for the lease; only where another run is harmless.
        reconcile_grace_ms: how long after the lease a resolver may be asked.
        retention_s: how long an answer is replayed, counted from its completion.
        gone_for_s: how long after that a repeat gets 410 (key expired) instead of running as a new
            operation; 0 means that it runs at once.
        in_progress: what a repeat of a running request gets: `conflict` (409 at once), `accepted`
            (202; functions raise as with `conflict`) or `wait`.
        wait_up_to_ms: how long `wait` waits before it answers 409.
        start_within_ms: how long a job may wait for a worker (`mode="queued"`).
        due_shards: the number of partitions of the `due` index; 0 keeps records out of it, so that
            no reconciler finds them.
        store_timeout_ms: the timeout of one call of the library's own client.
        pause_check_s: how long a sandbox may act on what it last read of the pauses; 0 means that
            it never looks, so that nothing can be paused.
        problem_base: the prefix of a problem's `type`; its stable code follows.
    """

    lease_margin_ms: int = LEASE_MARGIN_MS
    default_lease_ms: int = DEFAULT_LEASE_MS
    max_lease_ms: int | None = None
    reconcile_grace_ms: int = RECONCILE_GRACE_MS
    retention_s: int = RETENTION_S
    gone_for_s: int = 0
    in_progress: str = "conflict"
    wait_up_to_ms: int = WAIT_UP_TO_MS
    start_within_ms: int = START_WITHIN_MS
    due_shards: int = DUE_SHARDS
    store_timeout_ms: int = STORE_TIMEOUT_MS
    problem_base: str = PROBLEM_BASE
    pause_check_s: int = 0

    def __post_init__(self) -> None:
        faults = [
            f"{name} is {value}: {least} to {most} is possible"
            for name, (least, most) in _RANGES.items()
            if (value := getattr(self, name)) is not None and not least <= value <= most
        ]
        if self.in_progress not in IN_PROGRESS_POLICIES:
            faults.append(
                f"in_progress is {self.in_progress!r}:"
                f" one of {', '.join(IN_PROGRESS_POLICIES)} is needed"
            )
        if faults:
            raise ConfigurationError("oncekey settings", faults)

    @property
    def retention_ms(self) -> int:
        """The retention in milliseconds."""
        return self.retention_s * 1000

    @property
    def gone_after_ms(self) -> int | None:
        """How long after its completion an answer becomes 410; None if its key runs again."""
        return self.retention_ms if self.gone_for_s else None


# Environment variable → field.
# https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
_NUMBERS = {
    "ONCEKEY_LEASE_MARGIN_MS": "lease_margin_ms",
    "ONCEKEY_DEFAULT_LEASE_MS": "default_lease_ms",
    "ONCEKEY_RECONCILE_GRACE_MS": "reconcile_grace_ms",
    "ONCEKEY_RETENTION_S": "retention_s",
    "ONCEKEY_WAIT_UP_TO_MS": "wait_up_to_ms",
    "ONCEKEY_START_WITHIN_MS": "start_within_ms",
    "ONCEKEY_DUE_SHARDS": "due_shards",
    "ONCEKEY_STORE_TIMEOUT_MS": "store_timeout_ms",
    "ONCEKEY_PAUSE_CHECK_S": "pause_check_s",
}
_TEXTS = {"ONCEKEY_IN_PROGRESS": "in_progress", "ONCEKEY_PROBLEM_BASE": "problem_base"}
# Variables that other parts of the library and its tests read.
_OTHERS = (
    "ONCEKEY_DISABLED",
    "ONCEKEY_ESCALATE_AGAIN_MS",
    "ONCEKEY_ESCALATION_QUEUE_URL",
    "ONCEKEY_FINGERPRINT_SECRETS",
    "ONCEKEY_FINGERPRINT_SECRETS_ARN",
    "ONCEKEY_METRICS_NAMESPACE",
    "ONCEKEY_METRICS_SERVICE",
    "ONCEKEY_OUTBOX_GRACE_MS",
    "ONCEKEY_OUTBOX_TABLE",
    "ONCEKEY_QUEUE_URL",
    "ONCEKEY_RECONCILE_FIRST_DELAY_MS",
    "ONCEKEY_RECONCILE_LONGEST_DELAY_MS",
    "ONCEKEY_RECONCILE_MAX_ATTEMPTS",
    "ONCEKEY_RESOLVER_TIMEOUT_MS",
    "ONCEKEY_RESPONSE_BUCKET",
    "ONCEKEY_SIMULATION_SEED",
    "ONCEKEY_TABLE",
    "ONCEKEY_TRACES",
    "ONCEKEY_TRANSPORT",
    "ONCEKEY_WEBHOOK_SECRET",
    "ONCEKEY_WEBHOOK_SECRET_ARN",
)
VARIABLES = (*_NUMBERS, *_TEXTS, *_OTHERS)
_PREFIX = "ONCEKEY"
# A name less similar than this is not taken for a misspelling. It may belong to a later release
# that was rolled back to this one.
_LEAST_ALIKE = 0.65
_SWITCHES = {"1": True, "true": True, "0": False, "false": False, "": False}


def settings_from(environment: Mapping[str, str], given: Mapping[str, int | str]) -> Settings:
    """Settings from the keyword arguments `given`, else from `environment`, else the default.

    Raises:
        ConfigurationError: with every fault found, in one message.
    """
    texts = {field: environment[name] for name, field in _TEXTS.items() if name in environment}
    numbers, faults = whole_numbers(environment, _NUMBERS)
    faults += misspelt_variables(environment)
    faults += [*_transport_faults(environment), *_traces_faults(environment)]
    try:
        settings = Settings(**{**texts, **numbers, **given})  # type: ignore[arg-type]  # each field has its own type, checked above
    except ConfigurationError as error:
        faults += error.faults
    else:
        if not faults:
            return settings
    raise ConfigurationError("oncekey settings", faults)


def transport(environment: Mapping[str, str]) -> str:
    """What carries the calls to DynamoDB, as ONCEKEY_TRANSPORT says: `sdk` or `direct`.

    Raises:
        ConfigurationError: the variable has another value.
    """
    faults = _transport_faults(environment)
    if faults:
        raise ConfigurationError("oncekey settings", faults)
    return environment.get("ONCEKEY_TRANSPORT", "") or TRANSPORTS[0]


def _transport_faults(environment: Mapping[str, str]) -> list[str]:
    value = environment.get("ONCEKEY_TRANSPORT", "")
    if not value or value in TRANSPORTS:
        return []
    return [f"ONCEKEY_TRANSPORT is {value!r}: one of {', '.join(TRANSPORTS)} is needed"]


def _traces_faults(environment: Mapping[str, str]) -> list[str]:
    value = environment.get("ONCEKEY_TRACES", "").strip().lower()
    if value in {"", "on", "off"}:
        return []
    return [f"ONCEKEY_TRACES is {value!r}: on or off is needed"]


def misspelt_variables(environment: Mapping[str, str]) -> list[str]:
    """A fault for each variable whose name looks like a misspelt variable of the library.

    A variable that has the library's prefix and resembles none of its names is logged.
    """
    faults: list[str] = []
    meant = {_core(name): name for name in VARIABLES}
    for name in environment:
        if name in VARIABLES or not _squeezed(name).startswith(_PREFIX):
            continue
        from difflib import get_close_matches

        found = get_close_matches(_core(name), meant, n=1, cutoff=_LEAST_ALIKE)
        if found:
            faults.append(f"{name} is no variable of oncekey: did you mean {meant[found[0]]}?")
        else:
            _warn_of_unknown(name)
    return faults


def _warn_of_unknown(name: str) -> None:
    """A variable begins with `ONCEKEY_`, and the layer has no such variable.

    To do: remove it, or correct its name.
    """
    _logger.warning(
        "oncekey: nobody reads the variable %s",
        name,
        extra={"oncekey_event": "variable-unknown", "variable": name},
    )


def _core(name: str) -> str:
    return _squeezed(name).removeprefix(_PREFIX)


def _squeezed(name: str) -> str:
    return name.upper().replace("_", "").replace("-", "")


def whole_numbers(
    environment: Mapping[str, str], variables: Mapping[str, str]
) -> tuple[dict[str, int], list[str]]:
    """The numbers in `environment` by field name, and the faults of those that are no numbers."""
    numbers: dict[str, int] = {}
    faults: list[str] = []
    for name, field in variables.items():
        if name in environment:
            try:
                numbers[field] = int(environment[name])
            except ValueError:
                faults.append(f"{name} is {environment[name]!r}: a whole number is needed")
    return numbers, faults


def is_disabled(environment: Mapping[str, str]) -> bool:
    """Whether ONCEKEY_DISABLED switches the library off, for unit tests of handlers.

    In Lambda this leaves every request unprotected, so it is logged there, once per sandbox.

    Raises:
        ConfigurationError: the variable is neither 1/true nor 0/false. Guessing could switch the
            protection off.
    """
    value = environment.get("ONCEKEY_DISABLED", "").strip().lower()
    if value not in _SWITCHES:
        raise ConfigurationError(
            "oncekey settings", [f"ONCEKEY_DISABLED is {value!r}: 1 or 0 is needed"]
        )
    is_off = _SWITCHES[value]
    function = environment.get("AWS_LAMBDA_FUNCTION_NAME")
    # Local runtimes of Lambda functions set AWS_SAM_LOCAL.
    if is_off and function and environment.get("AWS_SAM_LOCAL", "").lower() != "true":
        _warn_of_no_protection(function)
    return is_off


@lru_cache(maxsize=256)
def _warn_of_no_protection(function: str) -> None:
    """`ONCEKEY_DISABLED` is set in a Lambda function: nothing is protected.

    To do: remove the variable.
    """
    _logger.warning(
        "oncekey: ONCEKEY_DISABLED is set in the Lambda function %s: nothing is protected, and"
        " every retry runs again. Remove the variable; it is for unit tests",
        function,
        extra={"oncekey_event": "disabled-in-lambda", "function": function},
    )


def table_name(environment: Mapping[str, str]) -> str:
    """The idempotency table that ONCEKEY_TABLE names.

    Raises:
        ConfigurationError: the variable is not set.
    """
    name = environment.get("ONCEKEY_TABLE", "").strip()
    misspelt = [] if name else misspelt_variables(environment)
    if misspelt:
        raise ConfigurationError("oncekey settings", misspelt)
    if not name:
        fault = (
            "ONCEKEY_TABLE is not set: name the idempotency table,"
            " or pass store=DynamoDBStore(table); in a test, use oncekey.testing.use_store"
        )
        raise ConfigurationError("oncekey settings", [fault])
    return name
