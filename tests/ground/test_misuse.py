"""Decorators that are written wrongly: one sentence says the mistake and what to write."""

from __future__ import annotations

import re
from typing import Any

import pytest

from oncekey import (
    ConfigurationError,
    Quota,
    idempotent,
    idempotent_function,
    resolver,
    single_tenant,
)
from oncekey.powertools.middleware import idempotent_route
from oncekey.webhooks import StripeSignature, webhook

WRITTEN: Any = {
    "idempotent": idempotent,
    "idempotent_function": idempotent_function,
    "webhook": webhook,
    "resolver": resolver,
    "idempotent_route": idempotent_route,
    "Quota": Quota,
}
TENANT = single_tenant()
MISSING: list[tuple[str, dict[str, Any], list[str]]] = [
    ("idempotent", {}, ["operation is missing", "tenant is missing: .*single_tenant"]),
    ("idempotent", {"operation": "POST /x"}, ["tenant is missing"]),
    ("idempotent", {"tenant": TENANT}, ["operation is missing: name it, such as 'POST /payments'"]),
    ("idempotent_function", {"operation": "x", "tenant": TENANT}, ["key is missing"]),
    ("idempotent_function", {}, ["operation is missing", "key is missing", "tenant is missing"]),
    ("webhook", {"operation": "POST /x", "tenant": TENANT}, ["scheme is missing: .*StripeSig"]),
    ("webhook", {"operation": "x", "scheme": StripeSignature()}, ["tenant is missing"]),
    ("resolver", {}, ["operation is missing"]),
    ("idempotent_route", {}, ["tenant is missing"]),
]
MISSPELT: list[tuple[str, dict[str, Any], str]] = [
    ("idempotent", {"tennant": TENANT}, r"tennant is no option \(did you mean tenant\?\)"),
    ("idempotent", {"retentions": 1}, r"retentions is no option \(did you mean retention\?\)"),
    ("idempotent", {"Effects": "recorded"}, r"Effects is no option \(did you mean effects\?\)"),
    ("idempotent", {"zzz": 1}, "zzz is no option;"),
    ("idempotent_function", {"fingerprints": len}, r"\(did you mean fingerprint\?\)"),
    ("webhook", {"secret": b"x"}, r"\(did you mean secrets\?\)"),
    ("resolver", {"operation": "x", "stepp": 1}, r"\(did you mean step\?\)"),
    ("idempotent_route", {"operation": "x", "tenant": TENANT}, "operation is no option"),
    ("Quota", {"new_key": 1}, r"\(did you mean new_keys\?\)"),
]


@pytest.mark.fault("K12.5")
@pytest.mark.parametrize("name", sorted(set(WRITTEN) - {"Quota"}))
def test_a_decorator_without_brackets_says_how_it_is_written(name: str) -> None:
    """What is written without its brackets is told how it is written.

    Red when Python's own TypeError comes, about positional arguments.
    """

    def function(event: Any, context: Any) -> None:
        """Decorated."""

    with pytest.raises(ConfigurationError, match=rf"given what it decorates: write @?{name}\("):
        WRITTEN[name](function)


@pytest.mark.fault("K12.5")
@pytest.mark.parametrize("name", ["idempotent", "idempotent_function", "webhook"])
def test_options_without_names_are_told_their_names(name: str) -> None:
    """An option that is given by its place is told that it has a name.

    Red when Python's own TypeError comes.
    """
    with pytest.raises(ConfigurationError, match=rf"options have names: write @{name}\("):
        WRITTEN[name]("POST /payments")


@pytest.mark.fault("K12.5")
@pytest.mark.parametrize(("name", "options", "faults"), MISSING)
def test_an_option_that_is_missing_is_told_with_what_to_write(
    name: str, options: dict[str, Any], faults: list[str]
) -> None:
    """Every option that is missing is named in one message, with what to write.

    Red when Python's own TypeError comes, or the first one alone is told.
    """
    with pytest.raises(ConfigurationError, match=".*".join(faults)) as raised:
        WRITTEN[name](**options)

    assert len(raised.value.faults) == len(faults)


@pytest.mark.fault("K12.4")
@pytest.mark.parametrize(("name", "options", "fault"), MISSPELT)
def test_an_option_that_is_misspelt_is_told_with_the_nearest(
    name: str, options: dict[str, Any], fault: str
) -> None:
    """An option that there is none of is told with the name that is most like it.

    Red when Python's own TypeError comes.
    """
    with pytest.raises(ConfigurationError) as raised:
        WRITTEN[name](**options)

    assert re.search(fault, f"{raised.value};")


@pytest.mark.fault("K12.5")
@pytest.mark.parametrize("name", ["idempotent", "idempotent_function", "webhook"])
def test_a_tenant_that_is_a_text_is_refused(name: str) -> None:
    """A text for a tenant is everybody's: it is told which sources there are.

    Red when the text is taken for a source, and fails at the first request.
    """
    options: dict[str, Any] = {"operation": "x", "tenant": "acme"}
    options |= {"key": "@"} if name == "idempotent_function" else {}
    options |= {"scheme": StripeSignature()} if name == "webhook" else {}

    with pytest.raises(ConfigurationError, match="tenant is no source, but a text.*single_tenant"):
        WRITTEN[name](**options)


async def _later() -> None:
    """A coroutine function."""


class _Holder:
    """Something that is no function."""

    @property
    def value(self) -> int:
        """A property."""
        return 1


WRONG_PLACES: list[tuple[Any, str]] = [
    (None, "a NoneType is decorated: decorate a function"),
    ("handler", "a str is decorated"),
    (_Holder, "a class is decorated: decorate the function or method"),
    (_Holder(), "a _Holder is decorated"),
    (staticmethod(lambda event, context: None), "@staticmethod stands above this decorator"),
    (classmethod(lambda cls, event: None), "@classmethod stands above this decorator"),
    (_Holder.__dict__["value"], "@property stands above this decorator"),
]


@pytest.mark.fault("K12.5")
@pytest.mark.parametrize("name", ["idempotent", "idempotent_function", "webhook", "resolver"])
@pytest.mark.parametrize(("what", "fault"), WRONG_PLACES, ids=[fault for _, fault in WRONG_PLACES])
def test_what_is_no_function_is_refused_when_it_is_decorated(
    name: str, what: Any, fault: str
) -> None:
    """A class, a static method below the decorator, and what is nothing to call are refused where
    they are decorated.

    Red when they fail in the signature, or at the first call.
    """
    with pytest.raises(ConfigurationError, match=fault):
        decorator(name)(what)


@pytest.mark.fault("K12.5")
@pytest.mark.parametrize("name", ["idempotent", "idempotent_function", "webhook", "resolver"])
def test_a_call_in_place_of_a_function_is_refused(name: str) -> None:
    """The result of calling a coroutine function is no function; it is closed unrun.

    Red when it is decorated, and warns that it was never awaited.
    """
    with pytest.raises(ConfigurationError, match="was called already: decorate the function"):
        decorator(name)(_later())


@pytest.mark.fault("K12.5")
@pytest.mark.parametrize("name", ["idempotent", "idempotent_function"])
def test_a_function_that_is_decorated_twice_is_refused(name: str) -> None:
    """The outer of two with one operation would hold the key that the inner asks for.

    Red when every call is told that the first one is running.
    """

    def twice(event: Any, context: Any) -> None:
        """Decorated."""

    once = decorator(name)(twice)
    with pytest.raises(ConfigurationError, match="decorated twice"):
        decorator(name)(once)


def decorator(name: str) -> Any:
    """The decorator of this name, with what it needs."""
    options: dict[str, Any] = {"operation": f"misused {name}"}
    if name != "resolver":
        options["tenant"] = TENANT
    if name == "idempotent_function":
        options["key"] = lambda *arguments: "a"
    if name == "webhook":
        options["scheme"] = StripeSignature()
    return WRITTEN[name](**options)
