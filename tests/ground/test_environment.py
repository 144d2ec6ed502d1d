"""The environment as one object: what is computed from it lasts until a variable changes."""

from __future__ import annotations

import os

import pytest

from oncekey.environment import OncePerEnvironment, environment


def test_the_environment_is_the_same_object_until_a_variable_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A changed, a new and a deleted variable make another one, which has the new value."""
    monkeypatch.setenv("ONCEKEY_TABLE", "one")
    first = environment()

    assert environment() is first
    monkeypatch.setenv("ONCEKEY_TABLE", "two")
    second = environment()
    assert (first.variables["ONCEKEY_TABLE"], second.variables["ONCEKEY_TABLE"]) == ("one", "two")
    monkeypatch.delenv("ONCEKEY_TABLE")
    assert "ONCEKEY_TABLE" not in environment().variables


def test_the_trace_of_an_invocation_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda's runtime sets `_X_AMZN_TRACE_ID` anew for each invocation, or deletes it.

    Red when every variable counts: in Lambda nothing would be kept from one request to the next.
    """
    monkeypatch.delenv("_X_AMZN_TRACE_ID", raising=False)
    made: list[int] = []
    once = OncePerEnvironment(lambda: made.append(1))
    first = environment()
    once()

    for trace in ("Root=1-1", "Root=1-2", "Root=1-3"):
        monkeypatch.setenv("_X_AMZN_TRACE_ID", trace)
        assert environment() is first
        once()
    monkeypatch.delenv("_X_AMZN_TRACE_ID")
    once()

    assert environment() is first
    assert made == [1]


def test_a_change_beside_the_trace_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that changes together with the trace is not missed."""
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-1")
    first = environment()

    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-2")
    monkeypatch.setenv("ONCEKEY_TABLE", "another-table")

    assert environment() is not first
    assert environment().variables["ONCEKEY_TABLE"] == "another-table"


def test_another_thread_may_change_a_variable_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change while the variables are read raises nothing, and is seen by the next call.

    Red when the live variables are read one by one.
    """
    decode = os.fsdecode
    changed: list[str | bytes] = []

    def changing(name: str | bytes) -> str:
        if not changed:
            changed.append(name)
            os.environ["ONCEKEY_A_NEW_VARIABLE"] = "1"
        return decode(name)

    monkeypatch.setenv("ONCEKEY_A_NEW_VARIABLE", "0")
    monkeypatch.delenv("ONCEKEY_A_NEW_VARIABLE")
    monkeypatch.setattr("oncekey.environment.os.fsdecode", changing)
    monkeypatch.setenv("ONCEKEY_TABLE", "a-table-that-is-new")
    before = environment()
    monkeypatch.setattr("oncekey.environment.os.fsdecode", decode)

    assert "ONCEKEY_A_NEW_VARIABLE" not in before.variables
    assert environment().variables["ONCEKEY_A_NEW_VARIABLE"] == "1"
    os.environ.pop("ONCEKEY_A_NEW_VARIABLE")


def test_what_cannot_be_made_is_tried_again() -> None:
    """A failure is raised and not kept."""
    tries: list[int] = []

    def make() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("not yet")
        return len(tries)

    once = OncePerEnvironment(make)
    with pytest.raises(ValueError, match="not yet"):
        once()

    assert (once(), once()) == (2, 2)
