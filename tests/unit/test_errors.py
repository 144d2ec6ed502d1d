"""The exceptions: they cross processes, and show no payload."""

from __future__ import annotations

import copy
import pickle

import pytest

from oncekey import errors
from oncekey.errors import (
    ConfigurationError,
    Final,
    NotExecuted,
    OncekeyError,
    RequestRefused,
    StoreError,
)

EXAMPLES: list[OncekeyError] = [
    OncekeyError("message"),
    ConfigurationError("@idempotent(...)", ["a fault", "another"]),
    NotExecuted("refused by the provider"),
    Final(402, {"card": "4242secret"}, {"X-Reason": "declined"}),
    Final(204),
    RequestRefused("key-invalid", "It has 3 characters."),
    StoreError("throttled", transient=True),
    StoreError("no such table", transient=False),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_exception_survives_pickling_and_copying(error: OncekeyError) -> None:
    """An exception that crosses to another process keeps its type and every attribute."""
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301 -- our own bytes
        assert type(other) is type(error)
        assert vars(other) == vars(error)
        assert str(other) == str(error)


def test_every_exception_is_among_the_examples() -> None:
    """No exception of the library goes untested, and all have one root."""
    defined = {
        item
        for item in vars(errors).values()
        if isinstance(item, type) and issubclass(item, BaseException)
    }

    assert defined == {type(error) for error in EXAMPLES}
    assert all(issubclass(item, OncekeyError) for item in defined)


def test_a_final_shows_its_status_and_no_body() -> None:
    """The text of `Final`, which may be logged, holds neither body nor headers."""
    final = Final(402, {"card": "4242secret"}, {"X-Reason": "4242secret"})

    assert str(final) == "the operation ends with status 402"


def test_a_finals_headers_are_its_own() -> None:
    """What happens to the caller's headers afterwards changes no answer."""
    headers = {"X-Reason": "declined"}
    final = Final(402, headers=headers)
    headers.clear()

    assert final.headers == {"X-Reason": "declined"}


def test_a_configuration_error_tells_where_and_every_fault() -> None:
    """One message names the place and all that is wrong, and is a ValueError to others."""
    error = ConfigurationError("oncekey settings", ["a is 0", "b is 1"])

    assert str(error) == "oncekey settings: a is 0; b is 1"
    assert isinstance(error, ValueError)


def test_a_store_error_tells_its_reason() -> None:
    """The text is the reason; whether asking again may help is an attribute."""
    error = StoreError("throttled", transient=True)

    assert (str(error), error.transient) == ("throttled", True)
