"""The checks of the decorators' options. Each fault is a sentence that says what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from oncekey import tenants
from oncekey.effects.handlers import (
    has_not_run,
    is_coroutine_function,
    is_generator_function,
    never_awaited,
)
from oncekey.effects.raised import exits
from oncekey.errors import ConfigurationError
from oncekey.misuse import nearest
from oncekey.record.record import Effects
from oncekey.settings import MAX_KEY_LENGTH, settings_from
from oncekey.store.secret_words import secret_words
from oncekey.telemetry import requests as telemetry

_SOURCES = (
    tenants.jwt_claim,
    tenants.authorizer_value,
    tenants.iam_principal,
    tenants.api_key_id,
    tenants.single_tenant,
)
# 100,000 records of about a kilobyte each take 100 MB.
_MOST_REMEMBERED = 100_000
# A line of a log, and a metric, has room for so much.
_LONGEST_NAME = 255
_CLOCK = ["now_ms", "pause", "random_fraction", "new_owner", "new_operation_id"]
# No record of DynamoDB holds a number of more than 38 digits.
_LAST_VERSION = 10**18
_SECRETS_VARIABLE = "ONCEKEY_FINGERPRINT_SECRETS"

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def predicate(
    operation: str,
    rule: type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool],
) -> Callable[[BaseException], bool]:
    """One predicate for the rule that says which errors prove that nothing happened.

    An exit or a cancellation counts as proof only if the rule names its type. A callable rule is
    not called with an exit or a cancellation.
    """
    if isinstance(rule, type | tuple):
        kinds = rule if isinstance(rule, tuple) else (rule,)
        of_exits = tuple(kind for kind in kinds if issubclass(kind, exits()))
        return lambda error: isinstance(error, of_exits if isinstance(error, exits()) else kinds)

    return lambda error: not isinstance(error, exits()) and _verdict(operation, rule, error)


def _verdict(operation: str, rule: Callable[[BaseException], bool], error: BaseException) -> bool:
    try:
        verdict: object = rule(error)
        if not has_not_run(verdict):
            return bool(verdict)
        # It would count as true, whatever it found out.
        failure: Exception = never_awaited(verdict)
    except Exception as raised:  # noqa: BLE001 -- a rule that fails proves nothing
        failure = raised
    telemetry.rule_failed(operation, failure)
    return False


def name_faults(operation: object) -> list[str]:
    """What is wrong with the operation's name."""
    if not isinstance(operation, str) or not operation.strip():
        return [
            "operation is empty: name it, by convention method and route, such as 'POST /payments'"
        ]
    if len(operation) > _LONGEST_NAME or not operation.isprintable():
        return [
            f"operation is no name: write at most {_LONGEST_NAME} printable characters on one line"
        ]
    return []


def caller_faults(tenant: object, principal: object) -> list[str]:
    """What is wrong with the sources of tenant and principal."""
    faults: list[str] = []
    if not callable(tenant) or isinstance(tenant, type):
        but = ", but a text, the same for everybody" if isinstance(tenant, str) else ""
        faults.append(
            f"tenant is no source{but}: use jwt_claim('tenant_id') or another,"
            " or single_tenant() if there is only one"
        )
    if tenant in _SOURCES or principal in _SOURCES:
        faults.append("a source is called where it is given: jwt_claim('tenant_id')")
    if principal is not None and (not callable(principal) or isinstance(principal, type)):
        faults.append("principal is no source: use jwt_claim('sub') or another")
    return [*faults, *rule_faults({"tenant": tenant, "principal": principal})]


def effects_faults(effects: object, max_lease: timedelta | None) -> list[str]:
    """What is wrong with the declared effects, and with a lease that they do not allow."""
    if not isinstance(effects, str) or effects not in set(Effects):
        kinds = [str(each) for each in Effects]
        meant = nearest(effects, kinds) if isinstance(effects, str) else ""
        needed = ", ".join(map(repr, kinds))
        return [f"effects is {effects!r}{meant}: one of {needed} is needed"]
    if max_lease is not None and effects != Effects.REPEATABLE:
        fault = "max_lease needs effects='repeatable': with it two attempts can overlap"
        return [fault]
    return []


def fingerprint_faults(fingerprint: object) -> list[str]:
    """What is wrong with the `fingerprint` option."""
    is_model = isinstance(fingerprint, type) and hasattr(fingerprint, "model_validate_json")
    is_callable = callable(fingerprint) and not isinstance(fingerprint, type)
    if fingerprint is None or is_model or is_callable:
        return rule_faults({"fingerprint": fingerprint})
    return ["fingerprint is neither a callable of the request nor a pydantic model"]


def preset_faults(preset: object, store_when: object, after_expiry: object) -> list[str]:
    """What is wrong with the preset, and with when answers are stored and forgotten."""
    faults: list[str] = []
    if not hasattr(preset, "refusal") or isinstance(preset, type):
        faults.append("preset is neither IETF nor STRIPE")
    is_rule = callable(store_when) and not isinstance(store_when, type)
    if store_when is not None and store_when not in ("final", "begun") and not is_rule:
        faults.append(f"store_when is {store_when!r}: 'final', 'begun' or a callable is needed")
    faults += rule_faults({"store_when": store_when})
    if after_expiry not in ("run", "gone"):
        faults.append(f"after_expiry is {after_expiry!r}: 'run' or 'gone' is needed")
    return faults


def secrets_source(
    secrets: Sequence[bytes] | Callable[[], Sequence[bytes]] | None,
) -> Callable[[], tuple[bytes, ...]]:
    """A function that returns the fingerprint secrets, newest first.

    It raises `StoreError` while a secret that a variable names cannot be read.
    """
    if secrets is None:
        return lambda: _checked(secret_words(_SECRETS_VARIABLE), _SECRETS_VARIABLE)
    if callable(secrets):
        return lambda: _given(secrets())
    return lambda: tuple(secrets)


def _given(returned: Iterable[bytes]) -> tuple[bytes, ...]:
    given: object = returned
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        never_awaited(given)  # closes a coroutine
        fault = f"it returned {type(given).__name__}: a list of secrets as bytes is needed"
        raise ConfigurationError("fingerprint_secrets", [fault])
    secrets = tuple(returned)
    # Without a secret, the table would reveal what the author wants to hide.
    if not secrets:
        raise ConfigurationError("fingerprint_secrets", ["a list of at least one secret is needed"])
    return _checked(secrets, "fingerprint_secrets")


def _checked(secrets: Sequence[bytes], source: str) -> tuple[bytes, ...]:
    if not all(map(_is_secret, secrets)):
        raise ConfigurationError(source, ["secrets of 16 bytes or more each are needed"])
    return tuple(secrets)


def secrets_faults(secrets: object) -> list[str]:
    """What is wrong with the fingerprint secrets."""
    if secrets is None or callable(secrets):
        return rule_faults({"fingerprint_secrets": secrets})
    if isinstance(secrets, list | tuple) and secrets and all(_is_secret(item) for item in secrets):
        return []
    return ["fingerprint_secrets is a list of secrets as bytes, 16 or more each, the newest first"]


def _is_secret(item: object) -> bool:
    return isinstance(item, bytes) and len(item) >= 16


def key_faults(methods: object, min_key_length: Any) -> list[str]:
    """What is wrong with the methods and the length of keys."""
    faults: list[str] = []
    is_listed = isinstance(methods, Collection) and not isinstance(methods, str)
    named: list[object] = [*methods] if is_listed and isinstance(methods, Collection) else []
    if not named or not all(map(_is_method, named)):
        faults.append("methods is a collection such as ('POST', 'PATCH')")
    is_number = isinstance(min_key_length, int) and not isinstance(min_key_length, bool)
    if not is_number or not 1 <= min_key_length <= MAX_KEY_LENGTH:
        faults.append(f"min_key_length is {min_key_length!r}: 1 to {MAX_KEY_LENGTH} is possible")
    return faults


def _is_method(method: object) -> bool:
    return isinstance(method, str) and method.isascii() and method.isalpha()


def proof_faults(rule: object) -> list[str]:
    """What is wrong with the rule that says which errors prove that nothing happened."""
    kinds = rule if isinstance(rule, tuple) else (rule,)
    are_types = all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds)
    is_rule = callable(rule) and not isinstance(rule, type)
    if are_types or is_rule:
        return rule_faults({"not_executed": rule})
    return ["not_executed is neither exception types (one, or a tuple) nor a predicate"]


def store_faults(store: object) -> list[str]:
    """What is wrong with the store."""
    if store is None or (hasattr(store, "write") and not isinstance(store, type)):
        return []
    return ["store is no store: pass DynamoDBStore(table), or name the table in ONCEKEY_TABLE"]


def part_faults(parts: Mapping[str, tuple[object, str, str]]) -> list[str]:
    """What is wrong with objects that are given by name: queues, tables and the like.

    Each is given with a method that it needs, and with what to pass instead. None is left out.
    """
    return [
        f"{name} is {_what(given)}: pass {instead}"
        for name, (given, method, instead) in parts.items()
        if given is not None and (isinstance(given, type) or not hasattr(given, method))
    ]


def _what(given: object) -> str:
    kind = given if isinstance(given, type) else type(given)
    return f"the class {kind.__name__}" if kind is given else f"a {kind.__name__}"


def quota_faults(quota: object) -> list[str]:
    """What is wrong with the quota."""
    # Recognised by its attribute, because importing Quota would load it for every operation.
    if quota is None or (not isinstance(quota, type) and hasattr(quota, "counts_keys")):
        return []
    return [f"quota is {quota!r}: pass Quota(new_keys=100), or leave it out"]


def duration_faults(durations: Mapping[str, object]) -> list[str]:
    """What is wrong with the durations. Each must be a `timedelta`, which states its unit."""
    return [
        f"{name} is {duration!r}: a timedelta is needed{_of_seconds(duration)}"
        for name, duration in durations.items()
        if duration is not None and not isinstance(duration, timedelta)
    ]


def _of_seconds(duration: object) -> str:
    if isinstance(duration, bool) or not isinstance(duration, int | float):
        return ""
    return f", such as timedelta(seconds={duration})"


def hook_faults(hooks: Mapping[str, object]) -> list[str]:
    """What is wrong with the callables that change answers."""
    faults = [
        f"{name} is no callable"
        for name, hook in hooks.items()
        if hook is not None and not callable(hook)
    ]
    return [*faults, *rule_faults(hooks)]


def rule_faults(rules: Mapping[str, object]) -> list[str]:
    """What is wrong with callables whose results are used at once: nobody awaits or iterates."""
    given = {name: rule for name, rule in rules.items() if callable(rule)}
    return [
        *(
            f"{name} is an async function, which nobody awaits"
            for name, rule in given.items()
            if is_coroutine_function(rule)
        ),
        *(
            f"{name} is a generator, which nobody runs: return the result"
            for name, rule in given.items()
            if is_generator_function(rule)
        ),
    ]


def event_faults(on_event: object) -> list[str]:
    """What is wrong with the `on_event` hook."""
    if on_event is None or (callable(on_event) and not isinstance(on_event, type)):
        return rule_faults({"on_event": on_event})
    return ["on_event is no callable of an OperationEvent"]


def cache_faults(local_cache: object) -> list[str]:
    """What is wrong with the number of answers that a sandbox remembers."""
    if (
        isinstance(local_cache, int)
        and not isinstance(local_cache, bool)
        and 0 <= local_cache <= _MOST_REMEMBERED
    ):
        return []
    return [f"local_cache is {local_cache!r}: a number of answers up to {_MOST_REMEMBERED:,}"]


def kind_faults(values: Mapping[str, tuple[object, type]]) -> list[str]:
    """What is wrong with options that need a value of one type."""
    return [
        f"{name} is {value!r}: {kind.__name__} is needed"
        for name, (value, kind) in values.items()
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool))
    ]


def text_faults(values: Mapping[str, object]) -> list[str]:
    """What is wrong with options that are text or left out."""
    return [
        f"{name} is {value!r}: printable text is needed"
        for name, value in values.items()
        if value is not None and not (isinstance(value, str) and value.isprintable())
    ]


def version_faults(response_version: object) -> list[str]:
    """What is wrong with the version of the answers."""
    if isinstance(response_version, int) and not isinstance(response_version, bool):
        if response_version < 1:
            return ["response_version is less than 1"]
        return ["response_version is too long"] if response_version > _LAST_VERSION else []
    return [f"response_version is {response_version!r}: int is needed"]


def wait_faults(in_progress: object, wait_up_to: object) -> list[str]:
    """What is wrong with a time to wait where nothing waits."""
    # Without `in_progress`, ONCEKEY_IN_PROGRESS may say that repeats wait.
    if wait_up_to is None or in_progress not in ("conflict", "accepted"):
        return []
    return [f"wait_up_to needs in_progress='wait': with {in_progress!r}, no repeat waits"]


def mode_faults(
    mode: object, in_progress: object, start_within: object, required: object
) -> list[str]:
    """What is wrong with `mode` and the options that depend on it."""
    if mode not in ("sync", "queued"):
        return [f"mode is {mode!r}: 'sync' or 'queued' is needed"]
    if mode == "sync":
        return [] if start_within is None else ["start_within needs mode='queued'"]
    faults: list[str] = []
    if in_progress == "conflict":
        faults.append("in_progress is 'conflict': mode='queued' answers 202, or use 'wait'")
    if not required:
        faults.append("required is False: what is accepted for later needs a key (mode='queued')")
    return faults


def clock_faults(clock: object) -> list[str]:
    """What is wrong with the clock."""
    if clock is None:
        return []
    if isinstance(clock, type):
        return [f"clock is the class {clock.__name__}: pass an object of it"]
    missing = [name for name in _CLOCK if not hasattr(clock, name)]
    if not missing:
        return []
    lacks = "" if missing == _CLOCK else f" (it has no {', '.join(missing)})"
    return [f"clock is no clock{lacks}: leave it out, or pass a ManualClock in tests"]


def settings_given(
    durations: dict[str, timedelta | None], texts: dict[str, str | None]
) -> dict[str, int | str]:
    """The settings given as keyword arguments, by the names of `Settings`.

    A duration is converted to the unit in its name, `_ms` or `_s`.
    """
    given: dict[str, int | str] = {name: text for name, text in texts.items() if text is not None}
    for name, duration in durations.items():
        if isinstance(duration, timedelta):
            unit = timedelta(milliseconds=1) if name.endswith("_ms") else timedelta(seconds=1)
            whole, rest = divmod(duration, unit)
            # Rounded up: no time is shorter than the one given.
            given[name] = whole + bool(rest)
    return given


def settings_faults(given: dict[str, int | str]) -> list[str]:
    """What is wrong with the settings given."""
    try:
        settings_from({}, given)
    except ConfigurationError as error:
        return error.faults
    return []
