"""The versioning promise: a newer release reads what an older one has left in the tables."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from tests.released.stories import (
    FOLDER,
    STORIES,
    VERSION,
    inflated,
    played,
    recorded,
    tables,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mypy_boto3_dynamodb import DynamoDBClient

SAMPLES = sorted(FOLDER.glob("*/*.json"))


@pytest.fixture(scope="module")
def client() -> Iterator[DynamoDBClient]:
    """A client of the tables, which each story fills."""
    with tables() as client:
        yield client


def sample(path: Path) -> dict[str, Any]:
    """What a release has kept."""
    return json.loads(path.read_text("utf-8"))  # type: ignore[no-any-return]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_an_older_release_has_stored_is_read_as_it_was_meant(
    client: DynamoDBClient, path: Path
) -> None:
    """A retry that meets the items of a release gets the answer that it got from that release, and
    the same effects are made or not made again.

    Red when an attribute is read under another name, or a step that is finished runs again.
    """
    kept = sample(path)

    assert json.loads(json.dumps(played(client, path.stem, kept))) == {
        "answers": kept["answers"],
        "effects": kept["effects"],
    }


@pytest.mark.parametrize("name", STORIES)
def test_the_present_code_stores_what_its_release_has_stored(
    client: DynamoDBClient, name: str
) -> None:
    """What is stored changes with a release, and never without one: older code reads it too while
    two releases run side by side.

    Red when a request stores another attribute, or another value.
    """
    kept, now = sample(FOLDER / VERSION / f"{name}.json"), recorded(client, name)

    for part in ("items", "messages"):
        assert inflated(now[part]) == inflated(kept[part])


def test_each_release_has_its_samples() -> None:
    """The samples of the version in pyproject.toml are there, one for each story."""
    project = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text("utf-8"))

    assert project["project"]["version"] == VERSION
    assert {path.stem for path in SAMPLES if path.parent.name == VERSION} == set(STORIES)
