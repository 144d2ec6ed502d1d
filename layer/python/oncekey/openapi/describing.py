"""Adds the layer's part to an OpenAPI document."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oncekey.environment import environment
from oncekey.errors import ConfigurationError
from oncekey.http import wire
from oncekey.http.decorator import idempotent
from oncekey.http.operation import HttpOperation, protection_of
from oncekey.http.preset import IETF
from oncekey.openapi import contract
from oncekey.openapi.apps import protections_in
from oncekey.settings import settings_from

if TYPE_CHECKING:
    from collections.abc import Iterable

    from oncekey.http.policy import HttpPolicy
    from oncekey.http.preset import Preset
    from oncekey.settings import Settings
    from oncekey.webhooks.operation import WebhookOperation

Document = dict[str, Any]

_SHARED = "#/components/responses/"
_STATUS_CODES = ("tenant-missing", "operation-unknown", "store-unavailable")


def describe(
    document: Mapping[str, Any],
    operations: Mapping[str, object] | object,
    *,
    variables: Mapping[str, str] | None = None,
) -> Document:
    """A copy of an OpenAPI 3.1 `document` with the layer's part of these operations.

    Each operation gets the header parameter `Idempotency-Key`, the headers of answers and replays,
    all refusals of the layer with their codes and `retryable`, the 202 of accepted work, and in its
    description how long answers are kept. What the document says already stays: a refusal is added
    beside the answers that an operation has with the same status.

    Args:
        document: such as `app.openapi()` of FastAPI, or of Powertools
            `json.loads(app.get_openapi_json_schema())`.
        operations: the app of Powertools, FastAPI or Starlette whose middleware protects them. Or
            what protects each, by its method and path in the document: `{"POST /payments":
            create_payment}`. That is a handler under `@idempotent`, an `idempotent_route(...)`, or
            for `GET /operations/{operation_id}` the `OperationStatus`, or a handler under
            `@webhook`.
        variables: the environment that the settings are read from, by default this process's.

    Raises:
        ConfigurationError: the document has no such operation, or nothing protects it. The message
            names every fault.
    """
    protections = (
        operations if isinstance(operations, Mapping) else protections_in(operations, document)
    )
    if not protections:
        fault = f"{type(operations).__name__} protects no operation of this document"
        raise ConfigurationError("describe", [fault])
    described: Document = copy.deepcopy(dict(document))
    read_from = environment().variables if variables is None else variables
    faults: list[str] = []
    for name, protection in protections.items():
        method, _, path = name.partition(" ")
        found = described.get("paths", {}).get(path, {}).get(method.lower())
        bound = _bound(protection)
        if found is None:
            faults.append(f"the document has no operation {name!r}")
        elif bound is not None:
            settings = settings_from(read_from, bound.policy.given_settings)
            _Describing(described, found).protected(bound.policy, settings)
        elif (hook := _webhook(protection)) is not None:
            settings = settings_from(read_from, hook.given_settings)
            _Describing(described, found).webhook(settings)
        elif _is_status(protection):
            settings = settings_from(read_from, {})
            _Describing(described, found).status(settings)
        else:
            faults.append(f"nothing protects {name!r}: {type(protection).__name__} is no handler")
    if faults:
        raise ConfigurationError("describe", faults)
    return described


def _bound(protection: object) -> HttpOperation | None:
    return protection.bound() if isinstance(protection, idempotent) else protection_of(protection)


def _is_status(protection: object) -> bool:
    from oncekey.queued.status import OperationStatus

    return isinstance(protection, OperationStatus)


def _webhook(protection: object) -> WebhookOperation | None:
    from oncekey.webhooks.operation import webhook_of

    return webhook_of(protection)


class _Describing:
    """Adds to one operation of a document, and to the document's components."""

    def __init__(self, document: Document, operation: Document) -> None:
        self._operation = operation
        components = document.setdefault("components", {})
        self._schemas = components.setdefault("schemas", {})
        self._headers = components.setdefault("headers", {})
        # A document that was read from YAML may have numbers as statuses.
        self._responses: dict[str, Any] = {
            str(status): response for status, response in operation.get("responses", {}).items()
        }
        operation["responses"] = self._responses
        self._shared: Mapping[str, Any] = components.get("responses", {})

    def protected(self, policy: HttpPolicy, settings: Settings) -> None:
        """Describe a protected operation."""
        self._parameters(contract.key_parameter(policy), dict(contract.FIRST_SENT_PARAMETER))
        for response in self._responses.values():
            if "$ref" not in response:
                self._add_headers(response, contract.answer_headers(policy.preset))
        if policy.is_queued or settings.in_progress == "accepted":
            self._accepted()
        self._refusals(contract.codes_of(policy, settings), policy.preset, settings.problem_base)
        said = [self._operation.get("description"), contract.prose_of(policy, settings)]
        self._operation["description"] = "\n\n".join(filter(None, said))
        self._operation["x-idempotency"] = {
            "required": policy.required,
            "retention_s": settings.retention_s,
        }

    def status(self, settings: Settings) -> None:
        """Describe `GET /operations/{operation_id}`."""
        schema = self._component("IdempotencyOperation", contract.OPERATION_STATUS)
        answer = self._response(200, "The state of the operation.")
        answer["content"] = {wire.JSON: {"schema": schema}}
        self._add_headers(answer, contract.headers([wire.RETRY_AFTER]))
        self._refusals(_STATUS_CODES, IETF, settings.problem_base)
        for response in self._responses.values():
            self._add_headers(response, contract.headers(["Cache-Control"]))

    def webhook(self, settings: Settings) -> None:
        """Describe a route that accepts a provider's events."""
        self._refusals(contract.codes_of_webhook(settings), IETF, settings.problem_base)

    def _accepted(self) -> None:
        answer = self._response(202, "Accepted, and not done yet.")
        self._add_schema(
            answer, wire.JSON, [self._component("IdempotencyAccepted", contract.ACCEPTED)]
        )
        self._add_headers(answer, contract.headers(["Location", wire.RETRY_AFTER]))

    def _refusals(self, codes: Iterable[str], preset: Preset, base: str) -> None:
        of_status: dict[int, list[Any]] = {}
        for status, *refusal in contract.refusals(iter(codes), preset, base):
            of_status.setdefault(status, []).append(refusal)
        for status, found in of_status.items():
            titles = [f"`{code}`: {title}." for code, title, *_ in found]
            answer = self._response(status, " ".join(titles), adds=True)
            added = []
            for code, _, media_type, schema, headers in found:
                self._add_headers(answer, headers)
                added.append((media_type, self._component(f"{preset.name}.{code}", schema)))
            media_types = dict.fromkeys(media_type for media_type, _ in added)
            for media_type in media_types:
                schemas = [schema for each, schema in added if each == media_type]
                if media_type == wire.PROBLEM:
                    schemas.append(self._component("OtherProblem", contract.other_problem(base)))
                self._add_schema(answer, media_type, schemas)

    def _parameters(self, *added: Document) -> None:
        names = {parameter["name"].lower() for parameter in added}
        given = self._operation.get("parameters", [])
        # A framework lists a header that its handler reads. The rules are here.
        kept = [each for each in given if str(each.get("name", "")).lower() not in names]
        self._operation["parameters"] = [*kept, *added]

    def _response(self, status: int, text: str, *, adds: bool = False) -> Document:
        answer: Document = self._responses.setdefault(str(status), {})
        shared = self._shared.get(str(answer.get("$ref", "")).removeprefix(_SHARED))
        if shared is not None:
            # What stands beside a reference is not read, and others refer to the shared one.
            answer = self._responses[str(status)] = copy.deepcopy(shared)
        given = answer.get("description")
        answer["description"] = f"{given} {text}" if given and adds else given or text
        return answer

    def _add_headers(self, answer: Document, headers: Mapping[str, Document]) -> None:
        self._headers |= headers
        for name in headers:
            ref = {"$ref": f"#/components/headers/{name}"}
            answer.setdefault("headers", {}).setdefault(name, ref)

    @staticmethod
    def _add_schema(answer: Document, media_type: str, schemas: list[Document]) -> None:
        content = answer.setdefault("content", {}).setdefault(media_type, {})
        given = content.pop("schema", None)
        every = [*schemas, *([given] if given and given not in schemas else [])]
        content["schema"] = every[0] if len(every) == 1 else {"anyOf": every}

    def _component(self, name: str, schema: Document) -> Document:
        # Operations with another `problem_base` have other refusals.
        names = (name, *(f"{name}-{number}" for number in range(2, len(self._schemas) + 3)))
        free = next(each for each in names if self._schemas.setdefault(each, schema) == schema)
        return {"$ref": f"#/components/schemas/{free}"}
