"""moto's server, as a deployment needs it: `python -m infra.local_deployment.moto_server`.

It listens on a free port and says which. It takes one request at a time, since moto's conditional
writes and transactions are not atomic between threads. What moto 5.2.5 does and AWS does not, and
would spoil a deployment of two stacks, is set right here; what it leaves out stays left out.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from moto.awslambda.models import LambdaBackend
from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import CloudFormationBackend, Stack
from moto.cloudformation.parsing import OutputMap, parse_output
from moto.cloudformation.responses import CloudFormationResponse
from moto.core.responses import ActionResult
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

from oncekey_local.processes import LOOPBACK
from oncekey_local.store import moto_repairs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

READY = "moto: listening on "

_create_change_set = CloudFormationBackend.create_change_set
_execute_change_set = CloudFormationBackend.execute_change_set


def _create(backend: CloudFormationBackend, *arguments: Any, **options: Any) -> Any:
    """Let a new stack import the exports of others, which moto forgets in a change set."""
    change_set_id, stack_id = _create_change_set(backend, *arguments, **options)
    stack = backend.stacks[stack_id]
    stack.cross_stack_resources = backend.exports
    stack.resource_map.cross_stack_resources = backend.exports
    return change_set_id, stack_id


def _execute(backend: CloudFormationBackend, *arguments: Any, **options: Any) -> None:
    """What a stack puts out can be read, and what it exports imported.

    moto works both out as it makes a stack, when a change set has not been executed yet.
    """
    _execute_change_set(backend, *arguments, **options)
    for stack in backend.stacks.values():
        if stack.template:
            stack.output_map = _outputs(stack)
            backend.exports.update({export.name: export for export in stack.exports})


def _outputs(stack: Stack) -> OutputMap:
    """The outputs of resources that moto has made. It makes no HTTP API."""
    template = stack.parse_template(str(stack.template))
    known = {}
    for name, output in template.get("Outputs", {}).items():
        with contextlib.suppress(ValidationError):
            parse_output(name, output, stack.resource_map)
            known[name] = output
    return OutputMap(stack.resource_map, {"Outputs": known}, stack.stack_id)


def _protect(response: CloudFormationResponse) -> ActionResult:
    """Answer that a stack is protected. moto still deletes it."""
    name = response._get_param("StackName")  # noqa: SLF001 - as every action of moto's does
    stack = response.cloudformation_backend.get_stack(name)
    wanted = response._get_param("EnableTerminationProtection")  # noqa: SLF001
    stack.enable_termination_protection = str(wanted).lower() == "true"
    return ActionResult({"StackId": stack.stack_id})


def _call_nobody(*_: Any, **__: Any) -> bool:
    """An event source leaves its messages where they are.

    Without Docker moto runs no function, and would take the messages off the queue all the same.
    """
    return False


def _repair() -> None:
    moto_repairs.repair()
    CloudFormationBackend.create_change_set = _create  # type: ignore[method-assign, assignment]
    CloudFormationBackend.execute_change_set = _execute  # type: ignore[method-assign, assignment]
    CloudFormationResponse.update_termination_protection = _protect  # type: ignore[attr-defined]
    LambdaBackend.send_sqs_batch = _call_nobody  # type: ignore[method-assign]
    LambdaBackend.send_dynamodb_items = _call_nobody  # type: ignore[method-assign, assignment]


def _one_at_a_time(application: WSGIApplication) -> WSGIApplication:
    lock = threading.Lock()

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        with lock:
            return application(environ, start_response)

    return answer


def main() -> None:
    """Serve until the process is killed."""
    _repair()
    application = _one_at_a_time(DomainDispatcherApplication(create_backend_app))
    server = make_server(
        LOOPBACK, 0, application, threaded=True, request_handler=MotoRequestHandler
    )
    # By this name the CDK's template is found in its bucket; by the address it is not.
    print(f"{READY}http://localhost:{server.port}", flush=True)  # noqa: T201 - who started it reads it
    server.serve_forever()


if __name__ == "__main__":
    main()
