"""Starts the process that looks at a handler: isolated, without credentials and without a network.

The process gets the function's own variables, as far as the template has them, and stand-ins for
the others. It gets none of this process's environment but the search path for programs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oncekey_operator.exits import UsageError
from oncekey_operator.template_reading import Templates, listed, mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from oncekey_operator.coverage.triggers import Function
    from oncekey_operator.template_reading import Resource

_SCRIPT = Path(__file__).with_name("inspecting.py")
# An import that takes longer would not fit into Lambda's own start.
_LONGEST_IMPORT_S = 60
# A port on which nothing listens: a call at import fails at once.
_NOWHERE = "http://127.0.0.1:9"
_STAND_IN = "known-to-the-deployment-only"
_ISOLATED = {
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_ENDPOINT_URL": _NOWHERE,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "HTTP_PROXY": _NOWHERE,
    "HTTPS_PROXY": _NOWHERE,
    "AWS_LAMBDA_FUNCTION_NAME": "oncekey-audit",
    "POWERTOOLS_TRACE_DISABLED": "true",
}


@dataclass(frozen=True, kw_only=True)
class Code:
    """Where a function's code is: its own folder, and those of its layers."""

    own: Path
    layers: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What was found in a handler. `error` says why nothing was."""

    error: str = ""
    handler: Mapping[str, Any] | None = None
    reached: list[Any] = field(default_factory=list[Any])
    topics: Mapping[str, Any] = field(default_factory=dict[str, Any])
    routes: list[Any] = field(default_factory=list[Any])


class Assembly:
    """A folder that `cdk synth` has written: its templates, and the code beside them.

    Raises:
        UsageError: it has no templates.
    """

    def __init__(self, folder: Path) -> None:
        files = _templates(folder) if folder.is_dir() else []
        if not files:
            raise UsageError(
                f"{folder} has no templates: run `cdk synth`, and name its folder (cdk.out)"
            )
        self.templates = Templates({str(file): _json(file) for file in files})
        self._assets: dict[str, Path] = {}
        for file in folder.rglob("*.assets.json"):
            for digest, asset in mapping(mapping(_json(file)).get("files")).items():
                path = mapping(mapping(asset).get("source")).get("path")
                if isinstance(path, str):
                    self._assets[digest] = (file.parent / path).resolve()

    def code_of(self, function: Function) -> Code | str:
        """Where the function's code is; or why it is not here."""
        resource = function.resource
        assert resource is not None
        own = self._asset(resource, resource.properties.get("Code"))
        if own is None:
            return "its code is no asset of this folder (an image, or inline code)"
        layers = [
            self._asset(layer, layer.properties.get("Content"))
            for each in listed(resource.properties.get("Layers"))
            if (layer := self.templates.referred(resource, each)) is not None
        ]
        return Code(own=own, layers=tuple(each / "python" for each in layers if each is not None))

    def _asset(self, resource: Resource, code: Any) -> Path | None:
        key = mapping(code).get("S3Key")
        written = resource.metadata.get("aws:asset:path")
        if isinstance(key, str) and (found := self._assets.get(Path(key).stem)):
            return found if found.is_dir() else None
        if isinstance(written, str):
            beside = Path(resource.template_name).parent / written
            return beside if beside.is_dir() else None
        return None


def _templates(folder: Path) -> list[Path]:
    """The templates in a folder; those of its manifest, if it has one.

    The CDK leaves the templates of an earlier synthesis where they are, such as those of a stack
    with its former name.
    """
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        return sorted(folder.rglob("*.template.json"))
    found: set[Path] = set()
    for artifact in map(mapping, mapping(mapping(_json(manifest)).get("artifacts")).values()):
        properties = mapping(artifact.get("properties"))
        match artifact.get("type"), properties:
            case "aws:cloudformation:stack", {"templateFile": str(name)}:
                found.add(folder / name)
            case "cdk:asset-manifest", {"file": str(name)}:
                # Those of nested stacks are assets.
                assets = mapping(mapping(_json(folder / name)).get("files")).values()
                paths = [mapping(mapping(asset).get("source")).get("path") for asset in assets]
                named = [path for path in paths if isinstance(path, str)]
                found |= {folder / path for path in named if path.endswith(".template.json")}
            case "cdk:cloud-assembly", {"directoryName": str(name)}:
                found |= {*_templates(folder / name)}
            case _:
                pass
    return sorted(found)


def look_at_all(wanted: Mapping[str, tuple[str, Code, Mapping[str, str]]]) -> dict[str, Looked]:
    """Look at handlers: by the function's name, its handler, code and variables."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        found = pool.map(lambda each: look_at(*each), wanted.values())
        return dict(zip(wanted, found, strict=True))


def look_at(handler: str, code: Code, variables: Mapping[str, str]) -> Looked:
    """Import a handler in a process of its own, and look at it."""
    request = {
        "name": handler,
        "first": [str(code.own)],
        # What is installed here fits this machine; a layer's may be for another one.
        "last": [str(each) for each in code.layers],
        "own": str(code.own),
    }
    found = _run(request, code.own, variables)
    return Looked(**found)


def description(reference: str, folder: Path) -> Mapping[str, Any]:
    """The functions of the description that `MODULE:NAME` names, imported from `folder`.

    Raises:
        UsageError: it cannot be imported, or is none.
    """
    request = {
        "name": reference,
        "separator": ":",
        "describes": True,
        "first": [str(folder)],
        "last": [],
        "own": str(folder),
    }
    found = _run(request, folder, {})
    if "error" in found:
        raise UsageError(f"--service {reference} is no description: {found['error']}")
    return found


def _run(request: Mapping[str, Any], folder: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    environment = {"PATH": os.environ.get("PATH", ""), **variables, **_ISOLATED}
    # -I leaves out the caller's variables and folders; -B writes no compiled file into the asset.
    command = [sys.executable, "-I", "-B", str(_SCRIPT)]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(request),
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_LONGEST_IMPORT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"its import takes more than {_LONGEST_IMPORT_S} s"}
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"error": f"its process ended: {_last_line(done.stderr)}"}
    return found


def variables_of(names: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
    """A value for each variable: its own, or a stand-in where only the deployment knows it."""
    return {name: known.get(name, _STAND_IN) for name in names}


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["without a word"])[-1]


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise UsageError(f"{file} is no JSON: {error}") from error
