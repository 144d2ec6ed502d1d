"""Reads templates, in which any value may be known to the deployment only.

Whatever is not written in plain numbers, texts, lists and mappings is unknown: it is never an
error, and never a finding.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Template = dict[str, Any]

_SUB = re.compile(r"\$\{([A-Za-z0-9]+)(?:\.[A-Za-z0-9.]+)?\}")
# Functions that are called through a name of theirs.
_NAMES_OF_FUNCTIONS = ("AWS::Lambda::Alias", "AWS::Lambda::Version")
# Longer than any real chain of exports, parameters and names.
_MOST_HOPS = 8


def mapping(value: Any) -> Template:
    """`value` if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    """The texts of a list, or a text alone."""
    if isinstance(value, str):
        return [value]
    return [one for one in listed(value) if isinstance(one, str)]


def number(value: Any, default: int | None = None) -> int | None:
    """A number, also one that is written as text; `default` if there is no value.

    None where only the deployment knows.
    """
    if value is None:
        return default
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return int(value)
    text = value.strip() if isinstance(value, str) else ""
    return int(text) if text.isascii() and text.isdecimal() else None


@dataclass(frozen=True, eq=False)
class Resource:
    """A resource of a template. A malformed one reads as empty."""

    template_name: str
    template: Template = field(repr=False)
    name: str

    def __eq__(self, other: object) -> bool:
        """Whether it is the same resource of the same template."""
        return isinstance(other, Resource) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[str, str]:
        return (self.template_name, self.name)

    @property
    def _written(self) -> Template:
        return mapping(mapping(self.template.get("Resources")).get(self.name))

    @property
    def kind(self) -> str:
        """Its type, such as `AWS::SQS::Queue`."""
        kind = self._written.get("Type")
        return kind if isinstance(kind, str) else ""

    @property
    def properties(self) -> Template:
        """Its properties. Each may be unknown."""
        return mapping(self._written.get("Properties"))

    @property
    def metadata(self) -> Template:
        """Its metadata."""
        return mapping(self._written.get("Metadata"))

    @property
    def variables(self) -> Template:
        """The environment of a function."""
        return mapping(mapping(self.properties.get("Environment")).get("Variables"))


@dataclass(frozen=True)
class Templates:
    """The templates of an app, by their names, which may refer to each other.

    An export is of one account and Region. Two deployments in one app, such as two stages, may have
    exports of the same names. `places` says by template where it goes; by default the folder of a
    template's path stands for it, because each stage of the CDK has one.
    """

    by_name: Mapping[str, Template]
    places: Mapping[str, object] = field(default_factory=dict[str, object])

    @cached_property
    def resources(self) -> list[Resource]:
        """All resources of all templates."""
        return [
            Resource(name, template, logical_id)
            for name, template in self.by_name.items()
            for logical_id in mapping(mapping(template).get("Resources"))
        ]

    def of_kind(self, *kinds: str) -> list[Resource]:
        """The resources of these types."""
        return [one for one in self.resources if one.kind in kinds]

    def referred(self, user: Resource, reference: Any) -> Resource | None:
        """The resource that a property of `user` refers to, in any template, or None."""
        found = self._followed(user.template_name, reference, _MOST_HOPS)
        if found is not None and found.kind in _NAMES_OF_FUNCTIONS:
            return self.referred_function(found)
        return found

    def referred_function(self, alias: Resource) -> Resource | None:
        """The function of an alias or a version."""
        named = alias.properties.get("FunctionName")
        return self._followed(alias.template_name, named, _MOST_HOPS)

    def mentioned(self, user: Resource, value: Any) -> list[Resource]:
        """All resources that `value` of a property of `user` refers to, in any of its parts."""
        found = self.referred(user, value)
        if found is not None:
            return [found]
        inner = value.values() if isinstance(value, dict) else listed(value)
        if isinstance(value, dict) and "Fn::Sub" in value:
            inner = _substituted(value["Fn::Sub"])
        return [one for each in inner for one in self.mentioned(user, each)]

    def _followed(self, template_name: str, reference: Any, hops: int) -> Resource | None:
        template = mapping(self.by_name.get(template_name))
        name, output = _target(reference)
        if not hops or (name is None and output is None):
            return None
        if output is None and name in mapping(template.get("Resources")):
            assert name is not None
            return Resource(template_name, template, name)
        given = (
            self._outputs(output, self._place(template_name))
            if output is not None
            else self._parameters(name)
        )
        for other, value in given:
            found = self._followed(other, value, hops - 1)
            if found is not None:
                return found
        return None

    def _place(self, template_name: str) -> object:
        return self.places.get(template_name, template_name.rpartition("/")[0])

    def _outputs(self, name: Any, place: object) -> Iterator[tuple[str, Any]]:
        """The values that templates export or output under this name, those of `place` first."""
        nearest = sorted(self.by_name.items(), key=lambda one: self._place(one[0]) != place)
        for template_name, template in nearest:
            for logical_id, output in mapping(mapping(template).get("Outputs")).items():
                exported = mapping(mapping(output).get("Export")).get("Name")
                if name == f"Outputs.{logical_id}" or (exported is not None and exported == name):
                    yield template_name, mapping(output).get("Value")

    def _parameters(self, name: str | None) -> Iterator[tuple[str, Any]]:
        """The values of a nested stack's parameter of this name."""
        for nested in self.of_kind("AWS::CloudFormation::Stack"):
            given = mapping(nested.properties.get("Parameters"))
            if name in given:
                yield nested.template_name, given[name]


def _target(reference: Any) -> tuple[str | None, Any]:
    """The logical id or the output that a reference names."""
    match reference:
        case {"Fn::ImportValue": exported}:
            return None, exported
        case {"Fn::GetAtt": [str(), str(attribute)]} if attribute.startswith("Outputs."):
            return None, attribute
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), *_]}:
            return name, None
        case {"Fn::GetAtt": str(path)}:
            return path.partition(".")[0], None
        case {"Fn::Sub": str(text)} if whole := _SUB.fullmatch(text):
            return whole[1], None
        case _:
            return None, None


def _substituted(given: Any) -> list[Any]:
    """What stands in the places of a text with `${Name}` or `${Name.Attribute}` in it."""
    text, *rest = given if isinstance(given, list) and given else [given]
    named = mapping(rest[0]) if rest else {}
    found = _SUB.finditer(text) if isinstance(text, str) else ()
    return [named.get(each[1], {"Ref": each[1]}) for each in found]


def is_unknown(reference: Any) -> bool:
    """Whether only the deployment knows the value."""
    return isinstance(reference, dict)
