"""The store that handlers share, by what the environment says."""

from __future__ import annotations

import pytest

from oncekey.store import defaults

CONNECTION = [
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "ONCEKEY_RESPONSE_BUCKET",
    "ONCEKEY_TABLE",
]


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table is named."""
    monkeypatch.setenv("ONCEKEY_TABLE", "a-table")


def test_handlers_share_one_store() -> None:
    """The same environment is the same store, and so one client and its connections."""
    assert defaults.store(1_500) is defaults.store(1_500)


@pytest.mark.parametrize("name", CONNECTION)
def test_another_place_or_another_account_is_another_store(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whatever says where the records are, or whose they are, is never outlived by a store.

    Red when one of the variables is not looked at: records would be sought in the table of before.
    """
    before = defaults.store(1_500)
    monkeypatch.setenv(name, "another-value")

    assert defaults.store(1_500) is not before


def test_another_time_out_is_another_store() -> None:
    """Two operations whose store may take different times do not get each other's."""
    stores = [defaults.store(call_timeout_ms) for call_timeout_ms in (700, 1_500)]

    assert [store.call_timeout_ms for store in stores] == [700, 1_500]
