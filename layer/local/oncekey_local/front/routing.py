"""Finds the route of a request as API Gateway's HTTP API does: the most specific template wins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from oncekey_local.description import Function, Route, Service

_PARAMETER = re.compile(r"\{(?P<name>[^{}+]+)(?P<greedy>\+?)\}")


@dataclass(frozen=True, kw_only=True)
class Match:
    """A route, its function, and what the path has in the places of the template's parameters."""

    route: Route
    function: Function
    parameters: Mapping[str, str]


class Router:
    """All routes of a service, the most specific first."""

    def __init__(self, service: Service) -> None:
        routes = [(route, function) for function in service.functions for route in function.routes]
        routes.sort(key=lambda pair: _generality(pair[0]))
        self._routes = [(_pattern(route.path), route, function) for route, function in routes]

    def match(self, method: str, raw_path: str) -> Match | None:
        """The route that answers this request, or None.

        Parameters are percent-decoded, like API Gateway's.
        """
        for pattern, route, function in self._routes:
            if route.method not in {method, "ANY"}:
                continue
            if found := pattern.fullmatch(raw_path):
                parameters = {name: unquote(value) for name, value in found.groupdict().items()}
                return Match(
                    route=route, function=function, parameters=_named(route.path, parameters)
                )
        return None


def _named(template: str, parameters: Mapping[str, str]) -> dict[str, str]:
    names = [found["name"] for found in _PARAMETER.finditer(template)]
    return {name: parameters[f"p{number}"] for number, name in enumerate(names)}


def _generality(route: Route) -> tuple[bool, list[int], bool]:
    """Sorts exact paths before parameters, these before greedy ones, a method before ANY."""
    segments = [_segment_generality(segment) for segment in _segments(route.path)]
    return 2 in segments, segments, route.method == "ANY"


def _segment_generality(segment: str) -> int:
    found = _PARAMETER.fullmatch(segment)
    if not found:
        return 0
    return 2 if found["greedy"] else 1


def _segments(path: str) -> list[str]:
    return path.strip("/").split("/")


def _pattern(path: str) -> re.Pattern[str]:
    # Group names of our own: a template's may hold letters that Python's groups may not.
    return re.compile("/" + "/".join(_expressions(_segments(path))))


def _expressions(segments: Iterable[str]) -> Iterable[str]:
    number = 0
    for segment in segments:
        if found := _PARAMETER.fullmatch(segment):
            yield f"(?P<p{number}>{'.+' if found['greedy'] else '[^/]+'})"
            number += 1
        else:
            yield re.escape(segment)
