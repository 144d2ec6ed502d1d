"""The environment of a Lambda function, in place of this machine's.

What a library reads from the environment in each call takes longer the more variables there are.
https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from tests.benchmarks.cases import OUTBOX, TABLE

if TYPE_CHECKING:
    from collections.abc import Callable

Given = ParamSpec("Given")
Result = TypeVar("Result")

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AWS_SESSION_TOKEN": "IQoJb3JpZ2luX2VjEXAMPLE" * 20,
    "AWS_REGION": "eu-central-1",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_EXECUTION_ENV": "AWS_Lambda_python3.11",
    "AWS_LAMBDA_FUNCTION_NAME": "payments",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
    "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
    "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
    "AWS_LAMBDA_LOG_GROUP_NAME": "/aws/lambda/payments",
    "AWS_LAMBDA_LOG_STREAM_NAME": "2026/11/29/[$LATEST]d4ba1dcf8fd14f4f9be0f9e1f3e5ad6b",
    "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001",
    "AWS_XRAY_CONTEXT_MISSING": "LOG_ERROR",
    "AWS_XRAY_DAEMON_ADDRESS": "169.254.79.129:2000",
    "LAMBDA_RUNTIME_DIR": "/var/runtime",
    "LAMBDA_TASK_ROOT": "/var/task",
    "LANG": "en_US.UTF-8",
    "TZ": ":UTC",
    "_HANDLER": "app.handler",
    "_X_AMZN_TRACE_ID": "Root=1-6748a1f0-5e1b4b3a7c2d4e6f8091a2b3;Sampled=0",
    # What the function's author sets.
    "ONCEKEY_TABLE": TABLE,
    "ONCEKEY_OUTBOX_TABLE": OUTBOX,
    "ONCEKEY_QUEUE_URL": "https://sqs.eu-central-1.amazonaws.com/123456789012/payments",
    "POWERTOOLS_SERVICE_NAME": "payments",
    # This machine's files and metadata service stay out of it.
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
_invocations = itertools.count(1)
# What a process needs to find its programs and its temporary files.
KEPT = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH")


def begin_invocation() -> None:
    """Set the trace of the next invocation, as Lambda's runtime does before it calls a handler."""
    os.environ["_X_AMZN_TRACE_ID"] = f"Root=1-6748a1f0-{next(_invocations):024x};Sampled=0"


def use_environment(transport: str = "sdk") -> None:
    """From now on, this process has these variables and few others."""
    for name in list(os.environ):
        if name not in KEPT:
            del os.environ[name]
    os.environ.update(ENVIRONMENT)
    os.environ["ONCEKEY_TRANSPORT"] = transport


def in_fresh_process(
    transport: str, function: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
) -> Result:
    """What `function` returns in a fresh process with this environment."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        1, mp_context=context, initializer=use_environment, initargs=(transport,)
    ) as process:
        return process.submit(function, *args, **kwargs).result()
