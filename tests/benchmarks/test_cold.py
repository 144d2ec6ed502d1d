"""A cold start is measured in a fresh process that answers one call over a socket."""

from __future__ import annotations

import pytest

from tests.benchmarks.cases import CASES
from tests.benchmarks.cold import ColdStarts, cold_start
from tests.benchmarks.loopback import loopback
from tests.benchmarks.profiling import shares_of
from tests.benchmarks.recording import Tapes, recorded

pytestmark = pytest.mark.proof


@pytest.fixture(scope="module")
def tapes() -> Tapes:
    """The first call, recorded."""
    return recorded([CASES["first-call"]], 1)


@pytest.mark.parametrize(
    ("name", "transport"),
    [("oncekey", "sdk"), ("oncekey", "direct"), ("powertools", "sdk"), ("bare", "sdk")],
)
def test_a_start_is_measured_up_to_the_answer(name: str, transport: str, tapes: Tapes) -> None:
    """The process answers over TLS, and its second mark comes after its first.

    `cold_start` compares the answer, and that no other transport answered.
    """
    call = tapes["first-call", "powertools" if name == "powertools" else "oncekey"][0]

    with loopback(tls=True) as server:
        start = cold_start(name, call, server, transport)

    decorated, answered = start["decorated"], start["answered"]
    assert 0 < decorated["cpu_us"] < answered["cpu_us"]
    assert 0 < decorated["modules"] < answered["modules"]
    assert (decorated["ours"] > 0) == (name == "oncekey")


def test_starts_are_compared_within_a_round() -> None:
    """A slow phase of the machine hits all contenders of a round, and cancels out."""
    marks = {
        "a": [{"answered": {"cpu_us": cpu_us}} for cpu_us in (200, 2000, 400)],
        "b": [{"answered": {"cpu_us": cpu_us}} for cpu_us in (100, 1000, 100)],
    }
    starts = ColdStarts(marks)

    assert starts.ratio("a", "b") == (2.0, 2.0, 4.0)
    assert starts.middle("a", "answered", "cpu_us") == 400


def test_the_time_of_the_standard_library_is_its_callers() -> None:
    """What a package has the standard library do counts as its own, through all its callers.

    Red when the time of a function that two packages call is given to one of them alone.
    """
    ours, theirs = ("x/oncekey/a.py", 1, "f"), ("x/botocore/b.py", 1, "g")
    lines, dumps, encode = ("json.py", 1, "lines"), ("json.py", 2, "dumps"), ("~", 0, "encode")
    entries = {
        ours: (1, 1, 2.0, 5.0, {}),
        theirs: (1, 1, 1.0, 6.0, {}),
        lines: (1, 1, 1.0, 3.0, {ours: (1, 1, 1.0, 3.0), lines: (1, 1, 1.0, 1.0)}),
        dumps: (1, 1, 0.0, 4.0, {lines: (1, 1, 0.0, 1.0), theirs: (1, 1, 0.0, 3.0)}),
        encode: (1, 1, 4.0, 4.0, {dumps: (1, 1, 4.0, 4.0)}),
    }

    assert shares_of(entries) == {"oncekey": 0.5, "botocore": 0.5}
