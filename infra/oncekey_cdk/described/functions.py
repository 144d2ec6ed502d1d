"""A described function as a Lambda function: its variables, its secrets and its code."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, cast

from aws_cdk import IgnoreMode
from aws_cdk import aws_lambda as lambda_

from oncekey_local.description import BucketName, QueueUrl, Setting, TableName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aws_cdk import aws_secretsmanager as secretsmanager

    from oncekey_local.description import EnvironmentValue, Function, Service

    from .resources import ServiceResources

# Their values are in no template.
SECRETS = (Setting.PROVIDER_API_KEY, Setting.WEBHOOK_SECRET)
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


def setting_faults(
    service: Service, settings: Mapping[Setting, str | secretsmanager.ISecret]
) -> Iterator[str]:
    """The settings that functions need and that are missing or of the wrong kind."""
    needed = {
        value
        for function in service.functions
        for value in function.environment.values()
        if isinstance(value, Setting)
    }
    for setting in sorted(needed):
        given = settings.get(setting)
        if given is None:
            yield f"functions need Setting.{setting.name}: pass it in settings="
        elif (setting in SECRETS) is isinstance(given, str):
            kind = "a secret of Secrets Manager" if setting in SECRETS else "text"
            yield f"settings[Setting.{setting.name}] must be {kind}"


def variables(
    function: Function,
    resources: ServiceResources,
    settings: Mapping[Setting, str | secretsmanager.ISecret],
) -> dict[str, str]:
    """The variables of a function, without its secrets."""
    return {
        name: _resolved(value, resources, settings)
        for name, value in function.environment.items()
        if value not in SECRETS
    }


def secrets(
    function: Function, settings: Mapping[Setting, str | secretsmanager.ISecret]
) -> dict[str, secretsmanager.ISecret]:
    """The secrets that a function reads, by the variable that would hold each."""
    return {
        name: cast("secretsmanager.ISecret", settings[value])
        for name, value in function.environment.items()
        if isinstance(value, Setting) and value in SECRETS
    }


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


def _resolved(
    value: EnvironmentValue,
    resources: ServiceResources,
    settings: Mapping[Setting, str | secretsmanager.ISecret],
) -> str:
    match value:
        case TableName(table=name):
            return resources.tables[name].table_name
        case BucketName(bucket=name):
            return resources.buckets[name].bucket_name
        case QueueUrl(queue=name):
            return resources.queues[name].queue_url
        case Setting():
            return cast("str", settings[value])
        case _:
            return value
