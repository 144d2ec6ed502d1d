"""Looks at a handler, in a process of its own: `python -I -B inspecting.py < request.json`.

It imports the handler's module and calls nothing of it. Then it follows what the handler's code
names, and reports the protected and the declared functions that it finds on the way. It is run as a
script, so that the service's code and its release of oncekey are found before those of the tool.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# More than the code of any real handler names.
_MOST_OBJECTS = 20_000
_UNSAFE = ("DELETE", "PATCH", "POST", "PUT")
# Objects of these packages call what they hold. Others may hold anything.
_CALLERS = ("oncekey", "mangum")


def main() -> None:
    """Read a request, and write what was found."""
    request = json.load(sys.stdin)
    # What the module prints as it is imported is not the report.
    report, sys.stdout = sys.stdout, sys.stderr
    sys.path[:0] = request["first"]
    sys.path += request["last"]
    try:
        target = _named(request["name"], request.get("separator", "."))
        found = (
            _description(target) if request.get("describes") else _Search(request["own"]).of(target)
        )
    except BaseException as error:  # noqa: BLE001 -- whatever the service's code raises
        found = {"error": f"{type(error).__name__}: {error}"}
    json.dump(found, report)
    report.flush()
    # Threads that the module has started are not waited for.
    os._exit(0)


def _named(name: str, separator: str) -> Any:
    module, _, attribute = name.rpartition(separator)
    if not module or not attribute:
        raise ValueError(f"{name!r} is no MODULE{separator}NAME")
    return getattr(importlib.import_module(module.replace("/", ".")), attribute)


class _Search:
    """What is reached from a handler. `own` is the folder of the service's code."""

    def __init__(self, own: str) -> None:
        self._own = os.path.realpath(own) + os.sep
        self._seen: set[int] = set()
        self._kept: list[Any] = []  # so that no id is used twice
        self._units: list[dict[str, Any]] = []
        self._topics: dict[str, Any] = {}
        self._routes: list[dict[str, Any]] = []
        self._middlewares: list[Any] = []

    def of(self, handler: Any) -> dict[str, Any]:
        """The report about a handler."""
        own = _unit(handler)
        if own is None:
            self._follow(handler)
        return {
            "handler": own,
            "reached": self._units,
            "topics": self._topics,
            "routes": self._routes,
        }

    def _follow(self, root: Any) -> None:
        waiting = [root]
        while waiting and len(self._seen) < _MOST_OBJECTS:
            one = waiting.pop()
            if id(one) in self._seen:
                continue
            self._seen.add(id(one))
            self._kept.append(one)
            if one is not root and (unit := _unit(one)) is not None:
                self._units.append(unit)
            else:
                waiting += self._beneath(one)

    def _beneath(self, one: Any) -> Iterator[Any]:
        if isinstance(one, types.FunctionType):
            yield from self._of_function(one)
        elif isinstance(one, types.MethodType):
            yield from (one.__func__, one.__self__)
        elif isinstance(one, functools.partial):
            yield from (one.func, *one.args, *one.keywords.values())
        elif isinstance(one, dict):
            yield from one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            yield from one
        elif isinstance(one, type):
            if self._is_own(one.__module__):
                yield from vars(one).values()
        elif isinstance(one, staticmethod | classmethod | functools.cached_property):
            yield getattr(one, "__func__", None) or getattr(one, "func", None)
        elif not isinstance(one, types.ModuleType | str | bytes | int | float | type(None)):
            yield from self._of_object(one)

    def _of_function(self, function: types.FunctionType) -> Iterator[Any]:
        yield getattr(function, "__wrapped__", None)
        for cell in function.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not filled yet
                continue
        if not self._is_own(function.__module__):
            return
        names = [*_names(function.__code__)]
        for name in names:
            found = function.__globals__.get(name)
            yield found
            if isinstance(found, types.ModuleType) and self._is_own(found.__name__):
                yield from (vars(found)[each] for each in names if each in vars(found))

    def _of_object(self, one: Any) -> Iterator[Any]:
        kind = type(one)
        if hasattr(one, "_router_middlewares"):
            self._routes += _powertools_routes(one)
        elif hasattr(one, "user_middleware"):
            self._routes += _asgi_routes(one, self._middlewares)
        elif kind.__module__ == "oncekey.asgi.middleware":
            self._middlewares.append((vars(one)["_options"], vars(one)["_routes"]))
            yield one.app
        elif kind.__module__ == "oncekey.outbox.topics":
            self._add_topics(one)
        elif kind.__module__.partition(".")[0] in _CALLERS or self._is_own(kind.__module__):
            yield from getattr(one, "__dict__", {}).values()
            if self._is_own(kind.__module__):
                yield kind

    def _add_topics(self, topics: Any) -> None:
        for topic, handler in vars(topics)["_handlers"].items():
            report = _Search(self._own).of(handler)
            self._topics[topic] = report["handler"] or next(iter(report["reached"]), None)
        if (jobs := vars(topics)["_jobs"]) is not None:
            names = ", ".join(getattr(jobs, "_jobs", ()))
            self._topics["oncekey.job"] = {"kind": "operation", "name": names, "methods": []}

    def _is_own(self, module: str | None) -> bool:
        file = getattr(sys.modules.get(module or ""), "__file__", None)
        if file is None:
            return False
        path = os.path.realpath(file)
        return path.startswith(self._own) and "site-packages" not in path[len(self._own) :]


def _names(code: types.CodeType) -> Iterator[str]:
    """The names that a function uses, with those of the functions in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _unit(one: Any) -> dict[str, Any] | None:
    """What protects `one`, or what it is declared as; None if neither."""
    from oncekey.declared import natural_of, operation_of
    from oncekey.http.operation import protection_of

    if isinstance(one, type):
        return None
    if (bound := protection_of(one)) is not None:
        policy = bound.policy
        return {
            "kind": "operation",
            "name": policy.name,
            "methods": sorted(policy.methods.keyed),
            "unkeyed": sorted(policy.methods.allowed - policy.methods.keyed),
            "required": policy.required,
        }
    if (name := operation_of(one)) is not None:
        return {"kind": "operation", "name": name, "methods": []}
    if (natural := natural_of(one)) is not None:
        return {"kind": "natural", "name": natural.operation, "reason": natural.reason}
    kind = type(one)
    if (kind.__module__, kind.__name__) in _LAYERS_OWN:
        return {"kind": "layer", "name": kind.__name__}
    return None


_LAYERS_OWN = {
    ("oncekey.outbox.relay", "OutboxRelay"),
    ("oncekey.reconciler.reconciler", "Reconciler"),
    ("oncekey.queued.status", "OperationStatus"),
}


def _powertools_routes(app: Any) -> Iterator[dict[str, Any]]:
    from oncekey.powertools import idempotent_route

    # The resolver has no public list of its routes.
    for route in (*app._static_routes, *app._dynamic_routes):  # noqa: SLF001
        found = [
            each
            for each in (*route.middlewares, *app._router_middlewares)  # noqa: SLF001
            if isinstance(each, idempotent_route)
        ]
        for method in [route.method] if isinstance(route.method, str) else route.method:
            keyed = {each.upper() for each in found[0].methods} if found else set()
            yield _route(method, route.openapi_path, route.func, is_protected=method in keyed)


def _asgi_routes(app: Any, around: list[Any]) -> Iterator[dict[str, Any]]:
    from oncekey.asgi import IdempotencyMiddleware
    from oncekey.asgi.routes import without_convertors

    entries = [*around]
    for entry in app.user_middleware:
        if isinstance(entry.cls, type) and issubclass(entry.cls, IdempotencyMiddleware):
            options = {k: v for k, v in entry.kwargs.items() if k != "lambda_web_adapter"}
            given = options.pop("routes", None) or {}
            entries.append((options, {without_convertors(k): v for k, v in given.items()}))
    for prefix, route in _below(app.routes, ""):
        path = without_convertors(prefix + route.path)
        for method in sorted(route.methods or ()):
            name = f"{method} {path}"
            keyed = any(
                method in _methods(options, own)
                for options, routes in entries
                if (own := routes.get(name, {})) is not None
            )
            yield _route(method, path, getattr(route, "endpoint", None), is_protected=keyed)


def _methods(options: Any, own: Any) -> set[str]:
    return {each.upper() for each in {**options, **own}.get("methods", ("POST", "PATCH"))}


def _below(routes: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for route in routes:
        if getattr(route, "methods", None):
            yield prefix, route
        elif getattr(route, "routes", None):
            yield from _below(route.routes, prefix + getattr(route, "path", ""))


def _route(method: str, path: str, function: Any, *, is_protected: bool) -> dict[str, Any]:
    name = f"{method} {path}"
    unit = {"kind": "operation", "name": name, "methods": [method]} if is_protected else None
    return {"name": name, "unit": unit or _unit(function)}


def _description(service: Any) -> dict[str, Any]:
    """The functions of an `oncekey_local.description.Service`."""
    return {
        "functions": [
            {
                "name": function.name,
                "handler": function.handler,
                "variables": {
                    name: value
                    for name, value in function.environment.items()
                    if type(value) is str
                },
                "routes": [route.key for route in function.routes],
                "events": [
                    *(f"queue {each.queue}" for each in function.queues),
                    *(f"stream of {each.table}" for each in function.streams),
                    *([f"schedule {function.name}"] if function.schedule else []),
                ],
            }
            for function in service.functions
        ]
    }


if __name__ == "__main__":
    main()
