"""An OpenAPI 3.1 document from the description of a service and the options of its handlers.

https://spec.openapis.org/oas/v3.1.1.html

The description has the routes and, if it names them, the models of their answers. The handlers have
the models of the requests, and everything about keys, replays and refusals.
"""

from __future__ import annotations

import importlib
import json
import re
import traceback
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from oncekey.http import wire
from oncekey.http.operation import protection_of
from oncekey.openapi import describe
from oncekey.openapi.contract import other_problem
from oncekey.queued import OperationStatus
from oncekey.settings import Settings
from oncekey.webhooks.operation import webhook_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from oncekey_local.description import Function, Route, Service

Schema = dict[str, Any]
Components = dict[str, Schema]

_PARAMETER = re.compile(r"\{([^{}+]+)\+?\}")
_REF = "#/components/schemas/{}"
# What API Gateway answers itself: without a token, after an error or a timeout of the function.
_OF_THE_GATEWAY: Schema = {"type": "object", "properties": {"message": {"type": "string"}}}
_FAILURES = (500, 503)
_REFUSED = 400
_OPEN_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


def document_of(service: Service) -> dict[str, Any]:
    """The document of `service`. It imports the modules of the functions that have routes.

    Raises:
        ValueError: a function's module fails on import. Its traceback is on standard error.
    """
    components: Components = {
        "GatewayError": _OF_THE_GATEWAY,
        "OtherProblem": other_problem(Settings.problem_base),
    }
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": service.name, "version": "1"},
        "paths": {},
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
            },
        },
    }
    for function in service.functions:
        if not function.routes:
            continue
        found = _protections(function)
        described: dict[str, object] = {}
        for route in function.routes:
            method, path = route.method.lower(), route.path.replace("+}", "}")
            if method not in _OPEN_METHODS:
                continue
            protection = found.get(route.key)
            item = document["paths"].setdefault(path, {})
            item[method] = _operation(route, protection, components)
            if protection is not None:
                described[f"{route.method} {path}"] = protection
        # The settings are those of the function's own variables.
        texts = {name: text for name, text in function.environment.items() if type(text) is str}
        if described:
            document = describe(document, described, variables=texts)
        components = document["components"]["schemas"]
    for item in document["paths"].values():
        for operation in item.values():
            _add_gateways_answers(operation)
    return document


def _protections(function: Function) -> Mapping[str, object]:
    """What protects the routes of a function, by their keys."""
    name, _, attribute = function.handler.rpartition(".")
    try:
        module = importlib.import_module(name)
        handler = getattr(module, attribute)
    except Exception as error:
        traceback.print_exc()
        raise ValueError(f"{function.handler} fails on import, see above") from error
    if isinstance(handler, OperationStatus):
        return {route.key: handler for route in function.routes if route.method == "GET"}
    found: dict[str, object] = {}
    for value in vars(module).values():
        if (bound := protection_of(value)) is not None:
            found[bound.policy.name] = value
        elif (hook := webhook_of(value)) is not None:
            found[hook.name] = value
    # A handler with one route may have any name.
    if (bound := protection_of(handler)) is not None:
        found |= {route.key: handler for route in function.routes if _needs_key(bound, route)}
    elif webhook_of(handler) is not None:
        found |= {route.key: handler for route in function.routes}
    return found


def _needs_key(bound: Any, route: Route) -> bool:
    return route.method in bound.policy.methods.keyed


def _operation(route: Route, protection: object, components: Components) -> Schema:
    operation: Schema = {
        "operationId": re.sub(r"\W+", "_", route.key.lower()).strip("_"),
        "responses": dict(_answers(route, components)),
    }
    if summary := (getattr(protection, "__doc__", None) or "").strip().partition("\n")[0]:
        operation["summary"] = summary
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(route.path)
    ]
    if parameters:
        operation["parameters"] = parameters
    if route.authorized:
        operation["security"] = [{"token": []}]
    bound = protection_of(protection)
    if bound is not None:
        operation["requestBody"] = _request_body(route, bound.policy.select, components)
    return operation


def _request_body(route: Route, model: Any, components: Components) -> Schema:
    content: Schema = {"schema": {}, "example": json.loads(route.example_body)}
    if hasattr(model, "model_json_schema"):
        content["schema"] = _model(model, "validation", components)
    return {"required": True, "content": {wire.JSON: content}}


def _answers(route: Route, components: Components) -> Iterator[tuple[str, Schema]]:
    for status, model in route.answers.items():
        answer: Schema = {"description": HTTPStatus(status).phrase}
        if model is not None:
            module, _, name = model.rpartition(".")
            given = getattr(importlib.import_module(module), name)
            answer["content"] = {wire.JSON: {"schema": _model(given, "serialization", components)}}
        elif status >= _REFUSED:
            answer["content"] = {wire.PROBLEM: {"schema": {"$ref": _REF.format("OtherProblem")}}}
        yield str(status), answer
    if not route.answers:
        yield "2XX", {"description": "The answer of the handler."}


def _add_gateways_answers(operation: Schema) -> None:
    statuses = (HTTPStatus.UNAUTHORIZED.value,) if "security" in operation else ()
    for status in (*statuses, *_FAILURES):
        answer = operation["responses"].setdefault(str(status), {})
        text = f"The gateway's own answer: {HTTPStatus(status).phrase}."
        answer["description"] = " ".join(filter(None, (answer.get("description"), text)))
        error = {"schema": {"$ref": _REF.format("GatewayError")}}
        answer.setdefault("content", {}).setdefault(wire.JSON, error)


def _model(model: Any, mode: str, components: Components) -> Schema:
    """A reference to the schema of `model`, whose own and inner ones are added to `components`.

    Classes of two modules may have one name, and what a class reads may differ from what it writes.
    """
    schema: Schema = model.model_json_schema(mode=mode, ref_template=_REF.format("{model}"))
    # A class that contains itself is among its own inner ones.
    added = {model.__name__: schema, **schema.pop("$defs", {})}
    references = {_REF.format(name) for name in added}
    for suffix in ("", *(f"-{number}" for number in range(2, len(components) + 3))):
        renamed = {
            f"{name}{suffix}": _referring(one, references, suffix) for name, one in added.items()
        }
        if all(components.get(name, one) == one for name, one in renamed.items()):
            components.update(renamed)
            return {"$ref": _REF.format(f"{model.__name__}{suffix}")}
    raise AssertionError("there are more names than components")


def _referring(value: Any, references: Container[str], suffix: str) -> Any:
    """`value` with this suffix at these references."""
    match value:
        case dict():
            return {key: _referring(one, references, suffix) for key, one in value.items()}
        case list():
            return [_referring(one, references, suffix) for one in value]
        case str() if value in references:
            return value + suffix
        case _:
            return value
