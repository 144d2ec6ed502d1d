"""Whether each trigger of a function is safe to repeat. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from oncekey_operator.coverage.handlers import Looked
    from oncekey_operator.coverage.triggers import Trigger

GAP = "gap"
_SAFE = ("GET", "HEAD", "OPTIONS", "TRACE")
_HOW = 'protect it, or declare @natural("why a repeat changes nothing")'


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was found about one trigger, or one topic or route of it.

    Attributes:
        trigger: its name.
        function: the function that it runs.
        verdict: `idempotent`, `natural`, `layer` (a handler of the layer itself) or `gap`.
        why: the operation, the reason, or what to do about the gap.
    """

    trigger: str
    function: str
    verdict: str
    why: str

    @property
    def is_gap(self) -> bool:
        """Whether somebody has to do something."""
        return self.verdict == GAP


def judge(
    triggers: Sequence[Trigger], looked: Mapping[str, Looked], declared: Mapping[str, str]
) -> list[Verdict]:
    """A verdict about every trigger that may change something.

    Args:
        triggers: what reaches the functions.
        looked: what was found in the handler of each function, by its name.
        declared: the reasons of triggers that no code can declare, by the trigger's name.
    """
    changing = [each for each in triggers if each.changes_state]
    found: list[Verdict] = []
    for trigger in changing:
        if (reason := declared.get(trigger.name)) is not None:
            found.append(_verdict(trigger, "natural", reason))
            continue
        alone = sum(one.function.name == trigger.function.name for one in changing) == 1
        found += _of_trigger(trigger, looked[trigger.function.name], is_alone=alone)
    known = {each.name for each in triggers}
    found += [
        Verdict(
            trigger=name,
            function="",
            verdict=GAP,
            why="pyproject.toml declares it natural, and there is no such trigger: remove the line",
        )
        for name in declared
        if name not in known
    ]
    return found


def _of_trigger(trigger: Trigger, looked: Looked, *, is_alone: bool) -> Iterator[Verdict]:
    if looked.error:
        yield _verdict(trigger, GAP, f"its handler cannot be looked at: {looked.error}")
    elif looked.handler is not None:
        yield _of_unit(trigger, looked.handler)
    elif looked.routes and trigger.is_route:
        yield from _of_app(trigger, looked.routes)
    elif looked.topics and not trigger.is_route:
        for topic, unit in looked.topics.items():
            yield _of_unit(trigger, unit, topic=topic)
    else:
        yield _of_dispatcher(trigger, looked.reached, is_alone=is_alone)


def _of_app(trigger: Trigger, routes: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
    # A wider trigger, or one with a prefix that the app removes, may reach every route.
    own = [each for each in routes if each["name"] == trigger.name]
    for route in own or routes:
        if route["name"].partition(" ")[0] not in _SAFE:
            yield _of_unit(trigger, route["unit"], topic="" if own else route["name"])


def _of_dispatcher(
    trigger: Trigger, reached: Sequence[Mapping[str, Any]], *, is_alone: bool
) -> Verdict:
    named = [each for each in reached if each["name"] == trigger.name]
    operations = [each for each in reached if each["kind"] == "operation"]
    if named:
        return _of_unit(trigger, named[0])
    if trigger.is_route and not is_alone:
        names = ", ".join(repr(each["name"]) for each in operations)
        hint = f" (it reaches {names}: name the operation like the route)" if names else ""
        return _verdict(trigger, GAP, f"its handler reaches no such operation{hint}; {_HOW}")
    if operations and not trigger.is_route:
        return _verdict(trigger, "idempotent", ", ".join(each["name"] for each in operations))
    if len(reached) == 1:
        return _of_unit(trigger, reached[0])
    if operations:
        names = ", ".join(repr(each["name"]) for each in operations)
        return _verdict(trigger, GAP, f"it reaches {names}: name one of them like the route")
    naturals = [each["reason"] for each in reached if each["kind"] == "natural"]
    if naturals:
        return _verdict(trigger, "natural", "; ".join(naturals))
    return _of_unit(trigger, None)


def _of_unit(trigger: Trigger, unit: Mapping[str, Any] | None, *, topic: str = "") -> Verdict:
    if unit is None:
        return _verdict(trigger, GAP, f"nothing protects it; {_HOW}", topic)
    if unit["kind"] == "natural":
        return _verdict(trigger, "natural", unit["reason"], topic)
    if unit["kind"] == "layer":
        return _verdict(trigger, "layer", f"{unit['name']} of the layer", topic)
    if trigger.is_route and trigger.method in unit.get("unkeyed", ()):
        fault = f"{unit['name']!r} runs {trigger.method} without a key; add it to methods="
        return _verdict(trigger, GAP, f"{fault}, or declare it natural", topic)
    note = "" if unit.get("required", True) else " (only if the client sends a key)"
    return _verdict(trigger, "idempotent", f"{unit['name']}{note}", topic)


def _verdict(trigger: Trigger, verdict: str, why: str, topic: str = "") -> Verdict:
    name = f"{trigger.name}: {topic}" if topic else trigger.name
    return Verdict(trigger=name, function=trigger.function.name, verdict=verdict, why=why)
