"""A durable execution of AWS's SDK on one machine, with its checkpoints in memory.

The SDK itself runs the handler. This is the service behind it, as far as steps, waits and child
contexts need it.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aws_durable_execution_sdk_python.execution import (
    DurableExecutionInvocationInputWithClient,
    InitialExecutionState,
)
from aws_durable_execution_sdk_python.lambda_service import (
    CheckpointOutput,
    CheckpointUpdatedExecutionState,
    ContextDetails,
    ExecutionDetails,
    Operation,
    OperationAction,
    OperationStatus,
    OperationType,
    OperationUpdate,
    StateOutput,
    StepDetails,
    WaitDetails,
)

from tests.support.protected import Context

if TYPE_CHECKING:
    from collections.abc import Callable

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
_STATUS = {
    OperationAction.START: OperationStatus.STARTED,
    OperationAction.SUCCEED: OperationStatus.SUCCEEDED,
    OperationAction.FAIL: OperationStatus.FAILED,
    OperationAction.RETRY: OperationStatus.PENDING,
}


class Invoked(Context):
    """A Lambda context with the members that the SDK reads."""

    aws_request_id = "request"
    invoked_function_arn = "arn:aws:lambda:eu-west-1:1:function:f:1"
    function_name = "f"
    function_version = "1"
    tenant_id = None


class Execution:
    """One execution of a `@durable_execution` handler."""

    _numbers = itertools.count(1)

    def __init__(self, payload: str = "{}") -> None:
        number = next(self._numbers)
        self.arn = f"arn:aws:lambda:eu-west-1:1:function:f:1/durable-execution/name/{number}"
        self.invocations = 0
        self._operations = {
            str(number): Operation(
                operation_id=str(number),
                operation_type=OperationType.EXECUTION,
                status=OperationStatus.STARTED,
                execution_details=ExecutionDetails(input_payload=payload),
            )
        }

    def invoke(self, handler: Callable[[Any, Any], Any], context: Any) -> Any:
        """One invocation: the output that the service gets, which says PENDING if suspended."""
        self.invocations += 1
        state = InitialExecutionState(operations=list(self._operations.values()), next_marker="")
        given = DurableExecutionInvocationInputWithClient(
            durable_execution_arn=self.arn,
            checkpoint_token="token",
            initial_execution_state=state,
            service_client=self,
        )
        return handler(given, context)

    def let_time_pass(self) -> None:
        """Let all waits end and all delays of steps be over."""
        for name, operation in self._operations.items():
            if operation.operation_type is OperationType.WAIT:
                self._operations[name] = _with(operation, OperationStatus.SUCCEEDED)
            elif operation.status is OperationStatus.PENDING:
                self._operations[name] = _with(operation, OperationStatus.READY)

    def checkpoint(
        self,
        durable_execution_arn: str,
        checkpoint_token: str,
        updates: list[OperationUpdate],
        client_token: str | None,
    ) -> CheckpointOutput:
        """As the service does: apply the updates, and return what has changed."""
        changed = [self._applied(update) for update in updates]
        return CheckpointOutput(
            checkpoint_token="token",
            new_execution_state=CheckpointUpdatedExecutionState(operations=changed),
        )

    def get_execution_state(
        self,
        durable_execution_arn: str,
        checkpoint_token: str,
        next_marker: str,
        max_items: int = 1000,
    ) -> StateOutput:
        """There are no further pages."""
        return StateOutput()

    def _applied(self, update: OperationUpdate) -> Operation:
        before = self._operations.get(update.operation_id)
        attempt = before.step_details.attempt if before and before.step_details else 0
        retries = update.action is OperationAction.RETRY
        details: dict[str, Any] = {}
        match update.operation_type:
            case OperationType.STEP:
                details["step_details"] = StepDetails(
                    attempt=attempt + 1 if retries else attempt,
                    next_attempt_timestamp=LONG_AGO if retries else None,
                    result=update.payload,
                    error=update.error,
                )
            case OperationType.WAIT:
                details["wait_details"] = WaitDetails(scheduled_end_timestamp=LONG_AGO)
            case _:
                details["context_details"] = ContextDetails(
                    result=update.payload, error=update.error
                )
        operation = Operation(
            operation_id=update.operation_id,
            operation_type=update.operation_type,
            status=_STATUS[update.action],
            parent_id=update.parent_id,
            name=update.name,
            sub_type=update.sub_type,
            start_timestamp=LONG_AGO,
            **details,
        )
        self._operations[update.operation_id] = operation
        return operation


def _with(operation: Operation, status: OperationStatus) -> Operation:
    return Operation(**{**vars(operation), "status": status})
