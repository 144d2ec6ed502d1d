"""One function as a process: `python -m infra.local_deployment.function_process HANDLER TIMEOUT_S`.

Each line of standard input is an event, each line of standard output what the handler has returned.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from dataclasses import dataclass, field

from oncekey_local.identifiers import new_id, now_ms


@dataclass(frozen=True, kw_only=True)
class Context:
    """What of Lambda's context the layer and Powertools read."""

    deadline_ms: int
    function_name: str = "local"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:local"
    aws_request_id: str = field(default_factory=new_id)

    def get_remaining_time_in_millis(self) -> int:
        """The time in milliseconds that is left until the function's timeout."""
        return max(0, self.deadline_ms - now_ms())


def main() -> None:
    """Answer events until there are no more."""
    handler, timeout_s = sys.argv[1:]
    # What the function prints is its log.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    module, _, name = handler.rpartition(".")
    function = getattr(importlib.import_module(module), name)
    for line in sys.stdin:
        context = Context(deadline_ms=now_ms() + int(timeout_s) * 1000)
        print(json.dumps(function(json.loads(line), context)), file=answers, flush=True)


if __name__ == "__main__":
    main()
