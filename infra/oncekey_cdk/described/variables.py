"""A described function's variables, with its settings and secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from oncekey_local.description import BucketName, QueueUrl, Setting, TableName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aws_cdk import aws_secretsmanager as secretsmanager
    from constructs import Construct

    from oncekey_local.description import EnvironmentValue, Function, Service

    from .service_resources import ServiceResources


def setting_faults(
    service: Service, settings: Mapping[str, str | secretsmanager.ISecret]
) -> Iterator[str]:
    """The settings that functions need and that are missing or of the wrong kind."""
    needed = {
        value.name: value
        for function in service.functions
        for value in function.environment.values()
        if isinstance(value, Setting)
    }
    for name, setting in sorted(needed.items()):
        given = settings.get(name)
        kind = "a secret of Secrets Manager" if setting.secret else "text"
        if given is None:
            yield f"functions need the setting {name!r}: pass {kind} in settings="
        elif setting.secret is isinstance(given, str):
            yield f"settings[{name!r}] must be {kind}"


def variables(
    scope: Construct,
    function: Function,
    resources: ServiceResources,
    settings: Mapping[str, str | secretsmanager.ISecret],
) -> dict[str, str]:
    """The variables of a function in `scope`, without secrets: their values are in no template."""
    return {
        name: _resolved(scope, value, resources, settings)
        for name, value in function.environment.items()
        if not (isinstance(value, Setting) and value.secret)
    }


def secrets(
    function: Function, settings: Mapping[str, str | secretsmanager.ISecret]
) -> dict[str, secretsmanager.ISecret]:
    """The secrets that a function reads, by the variable that would hold each."""
    return {
        name: cast("secretsmanager.ISecret", settings[value.name])
        for name, value in function.environment.items()
        if isinstance(value, Setting) and value.secret
    }


def _resolved(
    scope: Construct,
    value: EnvironmentValue,
    resources: ServiceResources,
    settings: Mapping[str, str | secretsmanager.ISecret],
) -> str:
    match value:
        case TableName(table=name):
            return resources.tables[name].name_for(scope)
        case BucketName(bucket=name):
            return resources.buckets[name].bucket_name
        case QueueUrl(queue=name):
            return resources.queues[name].queue_url
        case Setting():
            return cast("str", settings[value.name])
        case _:
            return value
