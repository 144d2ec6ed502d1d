"""The deliberate weakenings: protections removed by hand, and those derived from the conditions."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants.mutant import PACKAGES, Mutant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDER = Path(__file__).parent
CONDITIONS = "oncekey/store/dynamodb/conditions.py"
# What can be weakened: the words that the registry may use, in the order of the page.
KINDS = {
    "clause": "a clause of a condition or a decision left out",
    "bound": "a bound moved",
    "before": "a check left out before what it guards",
    "order": "two things done in the wrong order, or one of them not at all",
    "token": "a token that no longer tells two things apart",
    "field": "a field left or cleared",
    "code": "a status or a kind of answer decided wrongly",
    "header": "a header left out or added",
}
_TESTS_OF_CONDITIONS = ("tests/store/test_step_writes.py", "tests/store/test_store_contract.py")
# One comparison of a condition.
_PART = re.compile(
    r"attribute_(?:not_)?exists\([^)]*\)|size\([^)]*\) = :\w+"
    r"|#[\w.#]+ IN \([^)]*\)|#[\w.#]+ (?:=|<>|<=|<) :\w+"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakening:
    """One protection that is removed: `was` occurs once in the module at `path`, and becomes `now`.

    `weakens` says what then goes wrong. `tests` are shown it, the narrowest first.
    """

    area: str
    name: str
    kind: str
    path: str
    was: str
    now: str
    weakens: str
    tests: tuple[str, ...]

    def source(self) -> str:
        """The module's text with the protection removed.

        Raises:
            ValueError: the text that is to be removed does not occur exactly once.
        """
        text = (PACKAGES / self.path).read_text("utf-8")
        if text.count(self.was) != 1:
            raise ValueError(
                f"{self.area}/{self.name}: what it removes occurs {text.count(self.was)} times in"
                f" {self.path}"
            )
        return text.replace(self.was, self.now)

    def mutant(self, *first: str) -> Mutant:
        """The mutant, which is shown to the tests `first` and then to its own."""
        return self.mutant_of((*first, *(each for each in self.tests if each not in first)))

    def mutant_of(self, tests: Sequence[str]) -> Mutant:
        """The mutant, which is shown to `tests`."""
        return Mutant(f"{self.area}/{self.name}", self.path, ast.parse(self.source()), tests)


def by_hand() -> list[Weakening]:
    """The weakenings of the files in `weakenings/`, one area a file."""
    found: list[Weakening] = []
    for file in sorted((FOLDER / "weakenings").glob("*.toml")):
        rows = tomllib.loads(file.read_text("utf-8"))
        tests = rows.pop("tests")
        found += [
            Weakening(
                area=file.stem,
                name=name,
                kind=row["kind"],
                path=row["in"],
                was=row["was"],
                now=row["is"],
                weakens=row["weakens"],
                tests=tuple(row.get("tests", tests)),
            )
            for name, row in rows.items()
        ]
    return found


def of_conditions() -> list[Weakening]:
    """Each comparison of each transition's condition, ignored for every record that exists.

    The expression stays valid and uses the same values, so that DynamoDB does not refuse it. Only
    the function that chooses a condition is changed, so that no module is imported anew.
    """
    text = (PACKAGES / CONDITIONS).read_text("utf-8")
    guard = text[text.index("def guard(") :]
    found: list[Weakening] = []
    for name, condition in _conditions(text):
        for number, part in enumerate(_PART.finditer(condition), 1):
            ignored = f"({part[0]} OR attribute_exists(#pk))"
            weaker = condition[: part.start()] + ignored + condition[part.end() :]
            found.append(
                Weakening(
                    area="conditions",
                    name=f"{name.lower().replace('_', '-')}-{number}",
                    kind="clause",
                    path=CONDITIONS,
                    was=guard,
                    now=re.sub(rf"\b{name}\b", lambda _: repr(weaker), guard),  # noqa: B023 -- called at once
                    weakens=f"{name} ignores {part[0]}",
                    tests=_TESTS_OF_CONDITIONS,
                )
            )
    return found


def _conditions(text: str) -> Iterator[tuple[str, str]]:
    """The public constants of the module of conditions. It imports nothing that they need."""
    known: dict[str, object] = {}
    for node in ast.parse(text).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                source = ast.Expression(value)
                known[name] = eval(compile(source, CONDITIONS, "eval"), {}, known)  # noqa: S307 -- text of our own repository
                if not name.startswith("_"):
                    yield name, str(known[name])
            case _:
                continue


def everything() -> list[Weakening]:
    """The whole registry."""
    return [*by_hand(), *of_conditions()]
