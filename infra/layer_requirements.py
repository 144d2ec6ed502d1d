"""The locked packages of the layer: those of the reference service, and their dependencies.

The whole project has one lock, so the tested versions are the shipped ones. This module picks the
layer's part of it, for the processor and the Python of Lambda rather than of this machine.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING

from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

ARCHITECTURES = {"arm64": "aarch64", "x86_64": "x86_64"}
PYTHON_VERSIONS = ("3.11", "3.12", "3.13", "3.14")

# Lambda's runtime has boto3 and its own parts. A package that others need too, such as urllib3, is
# in the layer, because AWS does not promise that the runtime keeps it.
BROUGHT_BY_LAMBDA = frozenset({"boto3", "botocore", "s3transfer"})

_PROJECT = "oncekey"
_PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>\S+)(?: ; (?P<marker>.*?))? \\$")


@dataclass(frozen=True, kw_only=True)
class LayerTarget:
    """The Lambda runtime that a layer is for.

    Attributes:
        python_version: Such as "3.13".
        architecture: As Lambda calls it, "arm64" or "x86_64".
    """

    python_version: str = "3.13"
    architecture: str = "arm64"

    def __post_init__(self) -> None:
        faults = target_faults(self.python_version, self.architecture)
        if faults:
            raise ValueError("no layer can be made: " + "; ".join(faults))

    @property
    def platform(self) -> str:
        """The wheels that every Lambda runtime of this processor can load (PEP 599)."""
        return f"manylinux2014_{ARCHITECTURES[self.architecture]}"

    @property
    def markers(self) -> dict[str, str]:
        """The values for markers (PEP 508): those of Lambda, not of this machine."""
        return {
            **{name: str(value) for name, value in default_environment().items()},
            "implementation_name": "cpython",
            "implementation_version": f"{self.python_version}.0",
            "os_name": "posix",
            "platform_machine": ARCHITECTURES[self.architecture],
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": f"{self.python_version}.0",
            "python_version": self.python_version,
            "sys_platform": "linux",
        }


def target_faults(python_version: str, architecture: str) -> list[str]:
    """The faults of these two as a Lambda runtime, one phrase each."""
    known = (
        ("python_version", python_version, PYTHON_VERSIONS),
        ("architecture", architecture, tuple(ARCHITECTURES)),
    )
    return [
        f"{name} must be one of {', '.join(values)}, not {given!r}"
        for name, given, values in known
        if given not in values
    ]


@dataclass(frozen=True)
class _Pin:
    version: str
    # `name==version` and its hashes, without the marker, as pip reads them.
    text: str


def locked_requirements(root: Path, target: LayerTarget, *, extra: str = "reference") -> str:
    """Pick the part of the lock that the layer needs.

    Args:
        root: The folder of pyproject.toml and requirements.lock.
        target: What the layer is for.
        extra: The optional dependencies, of pyproject.toml, that the layer carries.

    Returns:
        A requirements file with a version and hashes for every package, in order of their names.

    Raises:
        RuntimeError: A package is not in the lock, not installed, or installed in another version.
            The message lists all of them.
    """
    pins = dict(_pins((root / "requirements.lock").read_text("utf-8"), target))
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    faults: list[str] = []

    def needs(name: str) -> Iterable[str]:
        if name not in pins:
            faults.append(f"{name} is not in requirements.lock")
            return ()
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            faults.append(f"{name} is not installed")
            return ()
        if installed.version != pins[name].version:
            faults.append(f"{name} {installed.version} is installed, {pins[name].version} locked")
        return installed.requires or ()

    names = _closure(extras[extra], extras, needs, target)
    if faults:
        raise RuntimeError(
            "the layer's dependencies are not known: " + "; ".join(faults) + "; run `make synth`, "
            "which installs what is locked, or `make lock`"
        )
    return "".join(pins[name].text for name in sorted(names))


def _closure(
    roots: Iterable[str],
    own_extras: dict[str, list[str]],
    needs: Callable[[str], Iterable[str]],
    target: LayerTarget,
) -> set[str]:
    """All that `roots` need, except what Lambda has and what only that needs."""
    pending = [(Requirement(text), "") for text in roots]
    seen: set[tuple[str, str]] = set()
    while pending:
        requirement, wanted_by_extra = pending.pop()
        name = str(canonicalize_name(requirement.name))
        if not _holds(requirement.marker, target, wanted_by_extra) or name in BROUGHT_BY_LAMBDA:
            continue
        for extra in ("", *sorted(requirement.extras)):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            if name == _PROJECT:
                pending += [(Requirement(text), "") for text in own_extras.get(extra, ())]
            else:
                pending += [(Requirement(text), extra) for text in needs(name)]
    return {name for name, _ in seen} - {_PROJECT}


def _holds(marker: Marker | None, target: LayerTarget, extra: str) -> bool:
    return marker is None or marker.evaluate({**target.markers, "extra": extra})


def _pins(lock: str, target: LayerTarget) -> Iterator[tuple[str, _Pin]]:
    """The packages of the lock that hold for `target`, by name."""
    for block in re.split(r"\n(?=\S)", lock.strip()):
        first, _, hashes = block.partition("\n")
        pin = _PIN.match(first)
        if pin is None:
            raise RuntimeError(f"requirements.lock pins nothing with {first!r}: run `make lock`")
        marker = Marker(pin["marker"]) if pin["marker"] else None
        if _holds(marker, target, ""):
            text = f"{pin['name']}=={pin['version']} \\\n{hashes}\n"
            yield str(canonicalize_name(pin["name"])), _Pin(pin["version"], text)
