"""Sorting a ledger by id, on disk."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncekey.ledger import sorted_by_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = st.lists(st.tuples(st.text(st.characters(), max_size=3), st.integers()))
# 30 MB in 6,000 rows; then it waits to be killed.
CHILD = textwrap.dedent(
    """
    import json, re, sys
    from pathlib import Path
    from oncekey.ledger import sorted_by_id

    def most_kib():
        # Not getrusage: its peak counts the process that this one was forked from.
        return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

    rows = ({"id": f"{number * 7919 % 6007:06d}", "text": "x" * 5000} for number in range(6000))
    with sorted_by_id([{"id": "warm"}], id_of=lambda row: row["id"]):
        before = most_kib()
    with sorted_by_id(rows, id_of=lambda row: row["id"]) as found:
        ids = [row["id"] for row in found]
        after = most_kib()
        print(json.dumps([ids == sorted(ids), len(ids), after - before]), flush=True)
        sys.stdin.read()
    """
)


@given(rows=ROWS)
def test_rows_come_in_the_order_of_their_ids(rows: list[tuple[str, int]]) -> None:
    """They come as `sorted` gives them, equal rows and equal ids too, whatever the ids are."""
    with sorted_by_id(rows, id_of=lambda row: row[0]) as found:
        assert list(found) == sorted(rows, key=lambda row: row[0])


def test_code_points_and_not_code_units_decide() -> None:
    """What UTF-16 would put first comes last: the order is that of `compare_ledgers`."""
    ids = ["\U0001f600", "\uff61", "\ud800", "a", "B", "é", "a\0b", ""]

    with sorted_by_id(ids, id_of=str) as found:
        assert list(found) == ["", "B", "a", "a\0b", "é", "\ud800", "\uff61", "\U0001f600"]


def test_an_id_that_is_no_str_is_an_error() -> None:
    """It is told which row has it, before anything is sorted."""
    with (
        pytest.raises(TypeError, match="the id of row 2 must be a str, but it is int"),
        sorted_by_id(["a", 7], id_of=lambda row: row),  # type: ignore[arg-type, return-value]
    ):
        pass


def test_a_source_that_fails_is_no_short_ledger() -> None:
    """An error while rows are read passes on, and nothing is given for sorted."""

    def broken() -> Iterator[str]:
        yield "b"
        raise ConnectionError("the list went away")

    with pytest.raises(ConnectionError), sorted_by_id(broken(), id_of=str):
        pass


def test_after_the_block_there_are_no_rows() -> None:
    """Rows that are read too late are an error and never an empty ledger."""
    with sorted_by_id(["b", "a", "c"], id_of=str) as found:
        assert next(found) == "a"

    with pytest.raises(sqlite3.ProgrammingError):
        next(found)


def test_memory_is_bounded_and_a_killed_process_leaves_nothing(tmp_path: Path) -> None:
    """Thirty megabytes are sorted in less than ten, and no file outlives the process."""
    environment = {**os.environ, "SQLITE_TMPDIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as process:
        assert process.stdout is not None
        is_sorted, count, growth_kib = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGKILL)

    assert (is_sorted, count) == (True, 6_000)
    assert growth_kib < 10 * 1024
    assert list(tmp_path.iterdir()) == []
