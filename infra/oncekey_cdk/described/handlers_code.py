"""The code of the handlers that a description names, as an asset."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from aws_cdk import IgnoreMode
from aws_cdk import aws_lambda as lambda_

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey_local.description import Service

_NO_CACHES = ["__pycache__/", "*.pyc"]


def handlers_code(service: Service, root: str | Path = ".") -> lambda_.AssetCode:
    """The packages and modules below `root` that hold the service's handlers, or that they import.

    Handlers are named from the project's root, so the asset holds these folders themselves. What is
    imported by a computed name is not found: pass `code=` then.
    """
    # As in a .gitignore, all top-level entries are left out, and then these are included.
    included = [
        f"!/{name}/" if Path(root, name).is_dir() else f"!/{name}.py"
        for name in _with_imported(_packages(service), Path(root))
    ]
    # The CDK's own process may have another working directory.
    folder = str(Path(root).resolve())
    return lambda_.Code.from_asset(
        folder, exclude=["/*", *included, *_NO_CACHES], ignore_mode=IgnoreMode.GIT
    )


def code_faults(service: Service, root: str | Path = ".") -> Iterator[str]:
    """The handlers whose code is not below `root`."""
    for name in _packages(service):
        if not (Path(root, name).is_dir() or Path(root, f"{name}.py").is_file()):
            yield (
                f"the handlers' package {name!r} is not in {Path(root).resolve()}: run cdk in the"
                " project's root, or pass code="
            )


def _packages(service: Service) -> list[str]:
    return sorted({function.handler.partition(".")[0] for function in service.functions})


def _with_imported(packages: list[str], root: Path) -> list[str]:
    """These and all others below `root` that they import, directly or not."""
    found: set[str] = set()
    open_names = {*packages}
    while open_names:
        name = open_names.pop()
        found.add(name)
        folder = root / name
        files = folder.rglob("*.py") if folder.is_dir() else [root / f"{name}.py"]
        for file in files:
            open_names |= {each for each in _imported_by(file) if _is_below(root, each)} - found
    return sorted(found)


def _is_below(root: Path, name: str) -> bool:
    return any(root.glob(f"{name}/**/*.py")) or (root / f"{name}.py").is_file()


def _imported_by(file: Path) -> Iterator[str]:
    """The top-level names of the absolute imports in a file."""
    if not file.is_file():
        return
    for node in ast.walk(ast.parse(file.read_text("utf-8"), str(file))):
        match node:
            case ast.Import(names=names):
                yield from (each.name.partition(".")[0] for each in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]
