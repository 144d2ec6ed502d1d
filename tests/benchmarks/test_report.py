"""The page of the benchmarks says what was measured, and which targets were missed."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

from tests.benchmarks.cold import ColdStarts, Start
from tests.benchmarks.figures import Figures, where
from tests.benchmarks.measuring import Times
from tests.benchmarks.plot import plot
from tests.benchmarks.report import page
from tests.benchmarks.suite import Costs
from tests.benchmarks.targets import outcomes
from tests.support.documents import ROOT

FIRST = "first-call, sdk transport, stub: CPU"
DIRECT = "first-call, direct transport, loopback: CPU"


def figures(*, ours_us: float = 90.0, modules: int = 45) -> Figures:
    """A run in which Powertools and bare boto3 took 100 microseconds, and oncekey `ours_us`."""
    us = {"oncekey": [ours_us] * 4, "powertools": [100.0] * 4, "bare": [100.0] * 4}
    mark = {"cpu_us": 20_000, "wall_us": 1, "modules": 9, "ours": modules, "rss_kb": 1}
    start: Start = {"decorated": mark, "answered": mark}
    costs = Costs(2, 2000, 1000, 0, 2, 2)
    return Figures(
        where={"Date": "2026-11-29"},
        costs={"first-call": {"oncekey": costs, "powertools": costs}},
        times={("sdk", over): {"first-call": Times(us, us)} for over in ("stub", "loopback")},
        cold={("sdk", False): ColdStarts(dict.fromkeys(us, [start] * 3))},
    )


def test_a_target_is_met_up_to_its_bound() -> None:
    """A figure at the bound is met, and one above it is missed. Without a figure it is neither."""
    at = {(each.what, each.against): each.is_met for each in outcomes(figures())}
    above = {(each.what, each.against): each.is_met for each in outcomes(figures(ours_us=91))}

    assert at[FIRST, "Powertools"] is at[FIRST, "bare boto3"] is True
    assert above[FIRST, "Powertools"] is False
    assert above[FIRST, "bare boto3"] is True
    assert at[DIRECT, "Powertools"] is None


def test_the_page_shows_each_target_with_what_was_measured() -> None:
    """Somebody who reads the page sees target and figure side by side."""
    text = page(figures(ours_us=150, modules=46))

    assert f"| {FIRST} | Powertools | ≤ 0.9 | 1.5 | **missed** |" in text
    assert f"| {DIRECT} | Powertools | ≤ 0.3 | not measured |  |" in text
    assert "modules of ours |  | ≤ 45 | 46 | **missed** |" in text
    assert "| first-call: round trips |  | ≤ 2 | 2 | met |" in text


def test_the_page_says_whose_code_takes_the_time() -> None:
    """Somebody who sees a missed target sees which packages take the CPU."""
    shares = {"sdk": {"replay": {"botocore": 0.74, "oncekey": 0.257, "tests": 0.003}}}
    text = page(replace(figures(), shares=shares))

    assert "| `replay`, sdk transport | botocore 74%, oncekey 26% |" in text


def test_the_page_says_where_it_was_measured() -> None:
    """Times mean nothing without the machine, the versions and how often they were measured."""
    named = where(12)

    assert {"Date", "Machine", "Python", "boto3", "aws-lambda-powertools"} <= named.keys()
    assert all(named.values())
    assert named["Rounds"] == "12"
    assert "| Date | 2026-11-29 |" in page(figures())


def test_the_plot_has_a_bar_for_each_contender_of_a_case() -> None:
    """The plot is well-formed, and its bars are as long as the ratios."""
    svg = ET.fromstring(plot(figures(ours_us=200)))  # noqa: S314 -- it was just written by us
    bars = [each for each in svg.iter() if each.get("height") == "10" and each.get("x") == "150"]
    widths = [float(each.get("width", "0")) for each in bars if each.get("y") != "26"]

    assert widths == [560.0, 280.0]


def test_the_documentation_holds_a_whole_run() -> None:
    """The page in the documentation is one of every case and of cold starts, with its plot."""
    folder = ROOT / "layer/docs/reference"
    text = (folder / "benchmarks.md").read_text("utf-8")

    assert (folder / "benchmarks.svg").read_text("utf-8").startswith("<svg")
    for heading in ("Targets", "CPU a call", "Requests, bytes and units", "Cold start"):
        assert f"## {heading}" in text
