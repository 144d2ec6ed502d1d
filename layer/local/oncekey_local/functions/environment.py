"""A function's environment variables: those of Lambda, of the description and of the developer."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey_local.description import (
    BucketName,
    LocalProvider,
    QueueUrl,
    Setting,
    TableName,
)
from oncekey_local.front.http_api_event import ACCOUNT_ID
from oncekey_local.processes import clean_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey_local.description import EnvironmentValue, Function, Service
    from oncekey_local.description.grants import Grant

REGION = "us-east-1"
PROVIDER_API_KEY = "sk_test_local"
WEBHOOK_SECRET = "whsec_local_only_0123456789abcdef"  # noqa: S105 -- opens nothing but this machine's own
_VERSION = "$LATEST"


@dataclass(frozen=True, kw_only=True)
class Place:
    """The values of this run of `oncekey dev`."""

    store_url: str
    provider_url: str | None
    # A directory that ends with the service.
    home: str
    overrides: Mapping[str, str]


def table_name(service: Service, table: str) -> str:
    """The physical name of a table, here."""
    return f"{service.name}-local-{table}"


def audit_table_name(service: Service) -> str:
    """The table of the operators' actions, which this runtime adds to the described ones."""
    return table_name(service, "oncekey-audit")


def bucket_name(service: Service, bucket: str) -> str:
    """The physical name of a bucket, here."""
    return f"{service.name}-local-{bucket}"


def queue_name(service: Service, queue: str) -> str:
    """The physical name of a queue, or of a queue of dead letters, here."""
    fifo = {name for one in service.queues if one.fifo for name in (one.name, one.dead_letters)}
    return f"{service.name}-local-{queue}{'.fifo' if queue in fifo else ''}"


def queue_arn(service: Service, queue: str) -> str:
    """The ARN of a queue, or of a queue of dead letters, here."""
    return sqs_arn(queue_name(service, queue))


def sqs_arn(name: str) -> str:
    """The ARN of the queue of this physical name."""
    return f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{name}"


def dynamodb_arn(name: str) -> str:
    """The ARN of the table of this physical name."""
    return f"arn:aws:dynamodb:{REGION}:{ACCOUNT_ID}:table/{name}"


def s3_arn(bucket: str, key: str = "") -> str:
    """The ARN of a bucket of this physical name, or of an object in it."""
    return f"arn:aws:s3:::{bucket}/{key}" if key else f"arn:aws:s3:::{bucket}"


def arn_of(service: Service, grant: Grant) -> str:
    """The ARN that a grant is for, here."""
    match grant.on:
        case TableName(table=table):
            return dynamodb_arn(table_name(service, table)) + grant.below
        case BucketName(bucket=bucket):
            return s3_arn(bucket_name(service, bucket)) + grant.below
        case QueueUrl(queue=queue):
            return queue_arn(service, queue)


def access_key(function: Function) -> str:
    """What a function signs its requests with, so that the store knows who asks."""
    return f"local-{function.name}"


def role_session_arn(name: str) -> str:
    """The ARN of a function, of this physical name, as the caller of AWS."""
    return f"arn:aws:sts::{ACCOUNT_ID}:assumed-role/{name}-role/{name}"


def queue_url(service: Service, queue: str, store_url: str) -> str:
    """The URL of a queue, or of a queue of dead letters, here."""
    return f"{store_url}/{ACCOUNT_ID}/{queue_name(service, queue)}"


def function_name(service: Service, function: Function) -> str:
    """The physical name of a function, here."""
    return f"{service.name}-local-{function.name}"


def function_arn(service: Service, function: Function) -> str:
    """The ARN in the function's context."""
    return f"arn:aws:lambda:{REGION}:{ACCOUNT_ID}:function:{function_name(service, function)}"


def rule_arn(service: Service, function: Function) -> str:
    """The ARN of the rule that calls the function on its schedule, here."""
    return f"arn:aws:events:{REGION}:{ACCOUNT_ID}:rule/{function_name(service, function)}"


def needs_provider(service: Service) -> bool:
    """Whether any function needs the address of the payment provider."""
    return any(
        _is_local(value, LocalProvider.URL)
        for function in service.functions
        for value in function.environment.values()
    )


def _is_local(value: EnvironmentValue, asked: LocalProvider) -> bool:
    return isinstance(value, Setting) and value.local is asked


def webhook_path(service: Service) -> str | None:
    """The path for the provider's events: the first open route of a function with its secret."""
    paths = (
        route.path
        for function in service.functions
        if any(
            _is_local(value, LocalProvider.WEBHOOK_SECRET)
            for value in function.environment.values()
        )
        for route in function.routes
        if not route.authorized
    )
    return next(paths, None)


def function_environment(service: Service, function: Function, place: Place) -> dict[str, str]:
    """The whole environment of a function's sandboxes.

    It contains none of the developer's own AWS settings.
    """
    described = {
        name: _resolve(service, value, place) for name, value in function.environment.items()
    }
    return (
        clean_environment()
        | _aws(function, place)
        | _lambda(service, function)
        # What an operator pauses is to be seen at once.
        | {"ONCEKEY_PAUSE_CHECK_S": "1"}
        # An SDK must not write into the developer's home directory.
        | {"HOME": place.home, "XDG_CONFIG_HOME": f"{place.home}/.config"}
        | described
        | dict(place.overrides)
    )


def _resolve(service: Service, value: EnvironmentValue, place: Place) -> str:
    match value:
        case TableName(table=table):
            return table_name(service, table)
        case BucketName(bucket=bucket):
            return bucket_name(service, bucket)
        case QueueUrl(queue=queue):
            return queue_url(service, queue, place.store_url)
        case Setting(local=LocalProvider.URL):
            assert place.provider_url is not None
            return place.provider_url
        case Setting(local=LocalProvider.API_KEY):
            return PROVIDER_API_KEY
        case Setting(local=LocalProvider.WEBHOOK_SECRET):
            return WEBHOOK_SECRET
        case Setting(local=local):
            return local
        case str():
            return value


def _aws(function: Function, place: Place) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": place.store_url,
        "AWS_ACCESS_KEY_ID": access_key(function),
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        # Otherwise, the SDK would find the developer's profile in the home directory.
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def _lambda(service: Service, function: Function) -> dict[str, str]:
    name = function_name(service, function)
    return {
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python{sys.version_info.major}.{sys.version_info.minor}",
        "AWS_LAMBDA_FUNCTION_NAME": name,
        # Tools read this variable to detect a local run.
        "AWS_SAM_LOCAL": "true",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
        "AWS_LAMBDA_FUNCTION_VERSION": _VERSION,
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "local",
        "LAMBDA_TASK_ROOT": os.getcwd(),  # noqa: PTH109 - text, for a variable
        "TZ": ":UTC",
        "_HANDLER": function.handler,
    }
