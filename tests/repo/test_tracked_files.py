"""What git tracks: files of the project, and nothing that a build or a machine made."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def git(*arguments: str) -> list[str]:
    """The lines that a git command prints."""
    result = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return result.stdout.splitlines()


def test_no_link_is_tracked() -> None:
    """A link may lead to a place that only one machine has."""
    links = [line for line in git("ls-files", "--stage") if line.startswith("120000")]

    assert links == []


def test_nothing_is_tracked_that_is_ignored() -> None:
    """What `.gitignore` names was made, not written."""
    assert git("ls-files", "--cached", "--ignored", "--exclude-standard") == []
