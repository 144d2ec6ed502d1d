"""What must be true of the finished templates, whoever has overridden what on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey_local.description import safe_visibility_timeout_s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Set

Template = dict[str, Any]

# CloudFormation's own, where a template says nothing.
_FUNCTION_TIMEOUT_S = 3
_VISIBILITY_TIMEOUT_S = 30


def unsafe_event_sources(
    templates: Mapping[str, Template], *, whole_batches: Set[str] = frozenset()
) -> list[str]:
    """Every event source under which work is done twice for nothing, one sentence each.

    That is a queue whose messages become visible while they are worked on, and a source without
    partial batch answers whose logical id is not in `whole_batches`.
    """
    return [
        f"{stack}/{mapping}: {fault}"
        for stack, template in templates.items()
        for mapping, resource in template.get("Resources", {}).items()
        if resource["Type"] == "AWS::Lambda::EventSourceMapping"
        for fault in _faults(
            _Mapping(templates, template, resource["Properties"]),
            partial_answers=mapping not in whole_batches,
        )
    ]


@dataclass(frozen=True)
class _Mapping:
    templates: Mapping[str, Template]
    template: Template
    properties: Mapping[str, Any]

    @property
    def window_s(self) -> int:
        return int(self.properties.get("MaximumBatchingWindowInSeconds", 0))

    @property
    def timeout_s(self) -> int:
        function = self.template["Resources"][self.properties["FunctionName"]["Ref"]]
        return int(function["Properties"].get("Timeout", _FUNCTION_TIMEOUT_S))

    @property
    def source(self) -> Template:
        """The resource that the events come from, in whichever stack it is."""
        arn = self.properties["EventSourceArn"]
        template = self.template
        if "Fn::ImportValue" in arn:
            template, arn = _exported(self.templates, arn["Fn::ImportValue"])
        resource: Template = template["Resources"][arn["Fn::GetAtt"][0]]
        return resource


def _exported(templates: Mapping[str, Template], name: str) -> tuple[Template, Any]:
    return next(
        (template, output["Value"])
        for template in templates.values()
        for output in template.get("Outputs", {}).values()
        if output.get("Export", {}).get("Name") == name
    )


def _faults(mapping: _Mapping, *, partial_answers: bool) -> Iterator[str]:
    given = mapping.properties.get("FunctionResponseTypes", [])
    if partial_answers and "ReportBatchItemFailures" not in given:
        yield "one failed record has its whole batch done again; add ReportBatchItemFailures"
    source = mapping.source
    if source["Type"] != "AWS::SQS::Queue":
        return
    visible_s = int(source["Properties"].get("VisibilityTimeout", _VISIBILITY_TIMEOUT_S))
    least_s = safe_visibility_timeout_s(timeout_s=mapping.timeout_s, window_s=mapping.window_s)
    if visible_s < least_s:
        yield (
            f"a visibility timeout of {visible_s} s hands out messages that are being worked on; "
            f"at least {least_s}, six times the function's timeout ({mapping.timeout_s} s) and "
            f"the window ({mapping.window_s} s)"
        )
