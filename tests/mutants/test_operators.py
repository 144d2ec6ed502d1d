"""The mutation tool: the faults that it makes, and how they get into a running process."""

from __future__ import annotations

import ast

import pytest

from oncekey.record.record import Status
from tests.mutants import operators, tool
from tests.mutants.mutant import PACKAGES, Mutant, changed_functions, patch_loaded
from tests.support.records import NOW_S, record

RECORD = "oncekey/record/record.py"


def faults_in(code: str) -> set[tuple[str, str, str]]:
    """The faults that the tool makes in `code`: kind, before and after."""
    found = operators.faults_in(RECORD, ast.parse(code))
    return {(fault.kind, fault.before, fault.after) for fault in found}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = a < b", {("comparison", "a < b", "a <= b")}),
        ("x = a is not b", {("comparison", "a is not b", "a is b")}),
        (
            "x = a and b and c",
            {
                ("clause dropped", "a and b and c", "b and c"),
                ("clause dropped", "a and b and c", "a and c"),
                ("clause dropped", "a and b and c", "a and b"),
            },
        ),
        ("x = not a", {("not dropped", "not a", "a")}),
        ("x = True", {("constant", "True", "False")}),
        ("x = 7", {("constant", "7", "8"), ("constant", "7", "6")}),
        ("x = min(a, b)", {("bound", "min(a, b)", "max(a, b)")}),
        ("x = f(a, b=c)", {("keyword dropped", "f(b=c)", "f()")}),
        (
            "x = {a, b}",
            {("entry dropped", "{a, b}", "{b}"), ("entry dropped", "{a, b}", "{a}")},
        ),
        ("x = {a: b}", {("entry dropped", "{a: b}", "{}")}),
        ("f(a)", {("statement dropped", "f(a)", "pass")}),
        ("a.b = c", {("statement dropped", "a.b = c", "pass")}),
        ("def f(): return a", {("nothing returned", "return a", "return None")}),
        ("def f(): return False", {("constant", "False", "True")}),
        (
            "if a: f(b)",
            {("condition turned", "if a", "if not (a)"), ("statement dropped", "f(b)", "pass")},
        ),
        ("telemetry.told(a)", set()),
        ("raise E(f'{a < b}')", {("statement dropped", "raise E(f'{a < b}')", "pass")}),
    ],
)
def test_the_tool_makes_each_small_fault_once(
    code: str, expected: set[tuple[str, str, str]]
) -> None:
    """Each comparison, clause, bound, constant, keyword, entry and statement is changed; what only
    people read is not.
    """
    assert faults_in(code) == expected


def test_a_fault_changes_one_place_and_leaves_the_module_alone() -> None:
    """Two equal faults of a function are told apart, and neither is in the other's mutant."""
    tree = ast.parse("def f():\n    g(a < b)\n    h(a < b)\n")

    first, second = [
        fault for fault in operators.faults_in(RECORD, tree) if fault.kind == "comparison"
    ]

    assert ast.unparse(first.tree).count("a <= b") == 1
    assert first.name != second.name
    assert "a <= b" not in ast.unparse(tree)


def test_only_a_change_of_functions_spares_a_new_import() -> None:
    """What runs when a module is imported has run in a process that has imported it."""
    before = compile("X = 1\ndef f(): return X + 1\n", "m.py", "exec")
    inside = compile("X = 1\ndef f(): return X + 2\n", "m.py", "exec")
    outside = compile("X = 2\ndef f(): return X + 1\n", "m.py", "exec")

    changed = changed_functions(before, inside)

    assert changed is not None
    assert [old.co_name for old, _ in changed] == ["f"]
    assert changed_functions(before, outside) is None
    assert changed_functions(before, before) == []


def test_a_loaded_method_gets_the_mutants_code() -> None:
    """A mutant of a method is met by every object, without a new import."""
    name = "oncekey/record/record.py Record.is_expired: settled_until_s <= now_ms // 1000"
    (fault,) = [
        fault
        for fault in operators.faults_of(RECORD)
        if fault.name.startswith(name) and fault.kind == "comparison"
    ]
    settled = record(status=Status.COMPLETED, expires_at_s=NOW_S)
    sound = type(settled).is_expired.__code__
    assert settled.is_expired(NOW_S * 1000)
    try:
        assert patch_loaded(fault.mutant(tests=[]))
        assert not settled.is_expired(NOW_S * 1000)
    finally:
        type(settled).is_expired.__code__ = sound


def test_a_changed_constant_needs_a_new_import() -> None:
    """A loaded module keeps its constants, so the mutant is refused and not taken for harmless."""
    text = (PACKAGES / RECORD).read_text("utf-8")
    weaker = ast.parse(text.replace("Status.UNKNOWN, Status.FAILED_RETRYABLE", "Status.UNKNOWN"))

    assert not patch_loaded(Mutant("a constant", RECORD, weaker))


def test_each_equivalent_fault_is_still_one_of_the_tools() -> None:
    """The list of faults that nobody can see names existing ones, each with its reason."""
    listed = tool.equivalents()
    paths = {name.partition(" ")[0] for name in listed}
    possible = {fault.name for path in paths for fault in operators.faults_of(path)}

    assert set(listed) - possible == set()
    assert all(len(reason) > 10 for reason in listed.values())


def test_a_sample_is_drawn_by_its_seed() -> None:
    """The same seed draws the same faults, and another one others."""
    faults = operators.faults_of(RECORD)

    drawn = [[each.name for each in tool.drawn(faults, 5, seed)] for seed in (1, 1, 2)]

    assert drawn[0] == drawn[1] != drawn[2]
