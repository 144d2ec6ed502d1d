"""The functions of a deployment, run here: the deployed settings, the deployed code.

For a cloud that runs none itself. What calls them is found through the deployed event sources.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from infra.local_deployment.toolkit import ROOT
from infra.service import SERVICE
from oncekey_local.events.batch_event import change_record, message_record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from infra.local_deployment.cloud import Cloud
    from oncekey_local.description import Function


class DeployedFunctions:
    """The functions as their stack describes them, from their first call to the end of the block.

    Args:
        cloud: Where they are deployed.
        assembly: The assembly that was deployed, whose code they run.
        overrides: Variables that are other than the deployed ones.
    """

    def __init__(self, cloud: Cloud, assembly: Path, overrides: Mapping[str, str]) -> None:
        self._cloud = cloud
        (self._code,) = [path.parent for path in assembly.glob("asset.*/functions")]
        self._overrides = overrides
        self._deployed = {
            deployed["Handler"]: deployed
            for deployed in cloud.client("lambda").list_functions()["Functions"]
        }
        self._described = {function.name: function for function in SERVICE.functions}
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self._processes.values():
            process.kill()
            process.communicate()

    def invoke(self, name: str, event: Mapping[str, Any]) -> Any:
        """Call a function, by its name in the description; returns what it returns."""
        if name not in self._processes:
            self._processes[name] = self._start(self._described[name])
        process = self._processes[name]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(event) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            log = self._log(name).read_text("utf-8", "replace")
            raise RuntimeError(f"the function {name} has ended without an answer:\n{log}")
        return json.loads(answer)

    def variables(self, function: Function) -> dict[str, str]:
        """The variables of a function as they are deployed; secrets are only named there."""
        deployed = self._deployed[function.handler]["Environment"]["Variables"]
        return {name: str(value) for name, value in deployed.items()}

    def relay(self) -> int:
        """Call the relay with what is new in the outbox; returns how many messages there were."""
        relay = self._described["outbox-relay"]
        streams, arn = self._cloud.client("dynamodbstreams"), self._source(relay)
        records = []
        for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
            iterator = streams.get_shard_iterator(
                StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            records += streams.get_records(ShardIterator=iterator)["Records"]
        wanted = [
            change_record(_as_sent(record), arn)
            for record in records
            if record["eventName"] in relay.streams[0].event_names
        ]
        self._call_with(relay, wanted)
        return len(wanted)

    def work(self) -> int:
        """Call the worker with what is in the queue; returns how many messages there were."""
        worker = self._described["outbox-worker"]
        arn, sqs = self._source(worker), self._cloud.client("sqs")
        url = sqs.get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"]
        messages = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        ).get("Messages", [])
        self._call_with(worker, [message_record(message, arn) for message in messages])
        for message in messages:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return len(messages)

    def _call_with(self, function: Function, records: list[dict[str, Any]]) -> None:
        if records and (failed := self.invoke(function.name, {"Records": records})):
            items = failed["batchItemFailures"]
            if items:
                raise RuntimeError(f"the function {function.name} has failed records: {items}")

    def _source(self, function: Function) -> str:
        """The ARN of the stream or queue that calls a function, as it is deployed."""
        arn = self._deployed[function.handler]["FunctionArn"]
        mappings = self._cloud.client("lambda").list_event_source_mappings()["EventSourceMappings"]
        (source,) = [one["EventSourceArn"] for one in mappings if one["FunctionArn"] == arn]
        return str(source)

    def _log(self, name: str) -> Path:
        return self._cloud.folder / f"{name}.log"

    def _start(self, function: Function) -> subprocess.Popen[str]:
        environment = self._cloud.environment()
        path = [str(self._code), str(ROOT / "layer" / "python"), environment["PYTHONPATH"]]
        with self._log(function.name).open("wb") as log:
            return subprocess.Popen(
                [
                    *(sys.executable, "-m", "infra.local_deployment.function_process"),
                    *(function.handler, str(function.timeout_s)),
                ],
                # Its end is that of the process, so that none is left behind.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._code,
                env={
                    **environment,
                    **self.variables(function),
                    **self._overrides,
                    "PYTHONPATH": os.pathsep.join([*path, str(ROOT)]),
                },
                text=True,
            )


def _as_sent(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record with its time as DynamoDB sends it, which boto3 has made a date of."""
    change = dict(record["dynamodb"])
    created = change.get("ApproximateCreationDateTime")
    if isinstance(created, datetime):
        change["ApproximateCreationDateTime"] = int(created.timestamp())
    return {**record, "dynamodb": change}
