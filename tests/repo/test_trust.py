"""The pages that a careful team reads before it adopts the layer: each statement has its test."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.documents import ROOT, text_of

SECURITY, FAQ = "layer/SECURITY.md", "layer/docs/faq.md"
PARTS = ["Asset", "Control", "Remaining risk", "Test"]
# The threats that every such layer has to answer.
THREATS = {
    "Concurrent first writer",
    "Cross-tenant collision",
    "Parameter mismatch",
    "Partial failure",
    "Incomplete coverage",
    "Fail-open store",
    "Worker replay",
    "Key enumeration",
    "Replay after expiry",
    "Error caching",
    "Expiry race",
    "Key spraying",
    "Stale answers",
}


def threats() -> dict[str, dict[str, str]]:
    """The parts of each threat of the page, by its name."""
    _, _, text = text_of(SECURITY).partition("## Threats\n")
    found = re.split(r"^### (.+)$", text, flags=re.MULTILINE)[1:]
    parts = re.compile(r"^- \*\*(.+?)\*\*: (.+)$", re.MULTILINE)
    return {
        name: dict(parts.findall(section))
        for name, section in zip(found[::2], found[1::2], strict=True)
    }


@pytest.mark.requirement("C24")
def test_each_threat_has_a_control_a_remaining_risk_and_a_test_that_exists() -> None:
    """The threat model names what is at stake, what is done, what is left, and who shows it.

    Red when a threat loses a part, or its test is renamed or removed.
    """
    found = threats()

    assert set(found) >= THREATS
    for name, parts in found.items():
        assert list(parts) == PARTS, name
        path, _, test = parts["Test"].strip("`").partition("::")
        tree = ast.parse((ROOT / path).read_text("utf-8"))
        assert test in {getattr(node, "name", None) for node in tree.body}, f"{name}: {test}"


def test_each_reported_fault_has_its_answer_among_the_questions() -> None:
    """Whoever met one of the reported faults elsewhere finds what happens here."""
    cases = re.findall(r"^\| (\d+) \|", text_of("tests/cases.md"), re.MULTILINE)
    marks = re.findall(r"<!-- ([\d ]+) -->", text_of(FAQ))
    answered = [number for mark in marks for number in mark.split()]

    assert sorted(answered, key=int) == sorted(cases, key=int)


def test_a_question_has_an_answer() -> None:
    """Each question is followed by its answer, and none is there twice."""
    questions = re.findall(r"^\*\*(.+?)\*\* <!-- .+ -->\n(\S.+)$", text_of(FAQ), re.MULTILINE)

    assert len(questions) == text_of(FAQ).count("<!-- ")
    assert len({question for question, _ in questions}) == len(questions)
