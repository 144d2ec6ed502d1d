"""Settings: where they come from, and what is wrong with them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from oncekey import idempotent, settings
from oncekey.errors import ConfigurationError
from oncekey.settings import Settings, is_disabled, settings_from, table_name

VARIABLES = {
    "ONCEKEY_LEASE_MARGIN_MS": ("lease_margin_ms", "1", 1),
    "ONCEKEY_DEFAULT_LEASE_MS": ("default_lease_ms", "2", 2),
    "ONCEKEY_RECONCILE_GRACE_MS": ("reconcile_grace_ms", "3", 3),
    "ONCEKEY_RETENTION_S": ("retention_s", "4", 4),
    "ONCEKEY_WAIT_UP_TO_MS": ("wait_up_to_ms", "5", 5),
    "ONCEKEY_DUE_SHARDS": ("due_shards", "6", 6),
    "ONCEKEY_STORE_TIMEOUT_MS": ("store_timeout_ms", "7", 7),
    "ONCEKEY_PAUSE_CHECK_S": ("pause_check_s", "8", 8),
    "ONCEKEY_IN_PROGRESS": ("in_progress", "wait", "wait"),
    "ONCEKEY_PROBLEM_BASE": ("problem_base", "https://e.example/", "https://e.example/"),
}
LEAST = {
    "lease_margin_ms": 0,
    "default_lease_ms": 1,
    "max_lease_ms": 1,
    "reconcile_grace_ms": 0,
    "retention_s": 1,
    "wait_up_to_ms": 0,
    "due_shards": 0,
    "store_timeout_ms": 1,
    "pause_check_s": 0,
}


def faults_of(environment: dict[str, str], given: dict[str, int | str]) -> list[str]:
    """What is wrong with these settings."""
    with pytest.raises(ConfigurationError) as caught:
        settings_from(environment, given)
    return caught.value.faults


@pytest.mark.requirement("E7")
def test_defaults_are_as_documented() -> None:
    """With nothing given, answers are kept a day, and a repeat of a running request is refused.

    Red when the retention falls below 24 hours.
    """
    default = settings_from({}, {})

    assert default == Settings()
    assert default.retention_s == 24 * 3600
    assert default.retention_ms == 24 * 3600 * 1000
    assert default.in_progress == "conflict"
    assert default.max_lease_ms is None


@pytest.mark.parametrize(("variable", "expected"), VARIABLES.items())
def test_an_environment_variable_sets_its_field(
    variable: str, expected: tuple[str, str, int | str]
) -> None:
    """Each variable sets one field, and nothing else."""
    field, text, value = expected

    changed = settings_from({variable: text}, {})

    assert getattr(changed, field) == value
    for other in Settings.fields_.values():
        if other.name != field:
            assert getattr(changed, other.name) == other.default


@pytest.mark.parametrize(("variable", "expected"), VARIABLES.items())
def test_a_keyword_argument_comes_before_the_environment(
    variable: str, expected: tuple[str, str, int | str]
) -> None:
    """What the code says for one operation holds over what the environment says for all."""
    field, text, _ = expected
    given: int | str = {"in_progress": "conflict", "problem_base": "urn:x:"}.get(field, 99)

    assert getattr(settings_from({variable: text}, {field: given}), field) == given


def test_every_fault_is_in_one_message() -> None:
    """Whoever corrects the settings need not deploy once for each fault."""
    faults = faults_of(
        {"ONCEKEY_RETENTION_S": "a day", "ONCEKEY_DUE_SHARDS": "", "ONCEKEY_IN_PROGRESS": "queue"},
        {"lease_margin_ms": -1},
    )

    assert faults == [
        "ONCEKEY_RETENTION_S is 'a day': a whole number is needed",
        "ONCEKEY_DUE_SHARDS is '': a whole number is needed",
        "lease_margin_ms is -1: 0 to 3600000 is possible",
        "in_progress is 'queue': one of conflict, wait, accepted is needed",
    ]
    with pytest.raises(ConfigurationError, match=r"oncekey settings: .*a day.*; .*; .*; .*queue"):
        settings_from(
            {"ONCEKEY_RETENTION_S": "a day", "ONCEKEY_DUE_SHARDS": "x"},
            {"lease_margin_ms": -1, "in_progress": "queue"},
        )


@pytest.mark.parametrize(("field", "least"), LEAST.items())
def test_a_number_has_a_least_value(field: str, least: int) -> None:
    """The least value is possible; one below it is refused and named."""
    assert getattr(settings_from({}, {field: least}), field) == least
    assert faults_of({}, {field: least - 1}) == [
        f"{field} is {least - 1}: {least} to {settings._RANGES[field][1]} is possible"
    ]


@pytest.mark.parametrize(
    ("field", "most"), [(name, most) for name, (_, most) in settings._RANGES.items()]
)
def test_a_number_has_a_greatest_value(field: str, most: int) -> None:
    """The greatest value is possible, and dates and DynamoDB can hold it; one above is refused."""
    assert getattr(settings_from({}, {field: most}), field) == most
    assert len(faults_of({}, {field: most + 1})) == 1


@pytest.mark.parametrize("text", ["1.5", "1e3", "", "0x10", "ten"])
def test_a_number_of_the_environment_is_whole(text: str) -> None:
    """What is no whole number is refused by the variable's name, and not guessed at."""
    assert faults_of({"ONCEKEY_DEFAULT_LEASE_MS": text}, {}) == [
        f"ONCEKEY_DEFAULT_LEASE_MS is {text!r}: a whole number is needed"
    ]


@pytest.mark.parametrize(
    ("text", "disabled"),
    [("1", True), ("true", True), (" TRUE ", True), ("0", False), ("false", False), ("", False)],
)
def test_the_library_is_disabled_by_a_clear_word_only(text: str, disabled: bool) -> None:
    """ONCEKEY_DISABLED is 1 or true, 0 or false, and off where it is not set.

    Red when any text that is not empty switches the protection off.
    """
    assert is_disabled({"ONCEKEY_DISABLED": text}) is disabled
    assert is_disabled({}) is False


@pytest.mark.parametrize("text", ["yes", "2", "off", "disabled"])
def test_an_unclear_switch_is_a_mistake(text: str) -> None:
    """Guessing could switch the protection off, so an unclear word is refused."""
    with pytest.raises(ConfigurationError, match=f"ONCEKEY_DISABLED is '{text}': 1 or 0"):
        is_disabled({"ONCEKEY_DISABLED": text})


def test_the_table_is_named_by_the_environment() -> None:
    """ONCEKEY_TABLE is the table; space around it is no part of its name."""
    assert table_name({"ONCEKEY_TABLE": " payments-idempotency "}) == "payments-idempotency"


@pytest.mark.parametrize("environment", [{}, {"ONCEKEY_TABLE": ""}, {"ONCEKEY_TABLE": "  "}])
def test_a_missing_table_says_what_to_set(environment: dict[str, str]) -> None:
    """Without a table nothing can be protected, and the message says what to do."""
    with pytest.raises(ConfigurationError, match=r"ONCEKEY_TABLE is not set.*DynamoDBStore"):
        table_name(environment)


def test_defaults_told_in_docstrings_are_the_constants() -> None:
    """What the decorator's documentation calls the default is the default."""
    told = re.sub(r"\s+", " ", idempotent.__doc__ or "")

    def said(duration: Any, unit: timedelta) -> str:
        return f"{duration // unit}"

    wait_up_to = timedelta(milliseconds=settings.WAIT_UP_TO_MS)
    grace = timedelta(milliseconds=settings.RECONCILE_GRACE_MS)
    retention = timedelta(seconds=settings.RETENTION_S)
    start_within = timedelta(milliseconds=settings.START_WITHIN_MS)
    assert f"wait_up_to: {said(wait_up_to, timedelta(seconds=1))} s by default" in told
    assert f"for a worker, {said(start_within, timedelta(hours=1))} h by default" in told
    assert f"{said(retention, timedelta(hours=1))} h by default" in told
    assert f"{said(grace, timedelta(seconds=1))} s by default" in told
    assert f"`{Settings().in_progress}` (409 at once, the default)" in told
