"""The life of `oncekey dev`: what it says when it is ready, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from oncekey_local.processes import Child, clean_environment
from tests.support.dev_service import ROOT, Meeting, is_alive, running, send, watched

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.proof

FAILING = "tests.support.sample_service:FAILING"


def test_ready_line() -> None:
    """Standard output has one line; when it is there, functions, tables and provider answer."""
    with running() as dev:
        assert dev.url.startswith("http://127.0.0.1:")
        answer = send(dev.url, "POST", "/echo", token=dev.token("acme"))
        assert answer.status == 200
        table = _describe(dev.store_url, "sample-local-things")
        assert send(dev.provider_url, "GET", "/nothing").status < 500
        assert dev.stop() == 0
        assert dev.process.stdout is not None
        assert dev.process.stdout.read() == ""
    assert table["KeySchema"] == [{"AttributeName": "pk", "KeyType": "HASH"}]
    [index] = table["GlobalSecondaryIndexes"]
    assert index["KeySchema"] == [
        {"AttributeName": "due_shard", "KeyType": "HASH"},
        {"AttributeName": "due_at", "KeyType": "RANGE"},
    ]
    assert index["Projection"] == {"ProjectionType": "KEYS_ONLY"}
    assert table["ttl"] == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}


def _describe(store_url: str, name: str) -> dict[str, Any]:
    client = boto3.client(
        "dynamodb",
        endpoint_url=store_url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )
    table: dict[str, Any] = dict(client.describe_table(TableName=name)["Table"])
    table["ttl"] = client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    return table


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
    ],
)
def test_signal(number: signal.Signals) -> None:
    """Ctrl-C and its like leave no process behind, not even a busy one; it says so, and the
    status is 0.
    """
    with running(FAILING) as dev, Meeting() as meeting:
        meeting.call(dev, "/spin")
        _, connection = meeting.arrival()
        connection.send("go")
        pids = dev.pids()
        assert len(dev.busy("spin")) == 1
        assert all(os.getsid(pid) == pid for pid in pids)  # a terminal reaches only the parent
        assert dev.stop(number) == 0
        assert dev.log().endswith("oncekey dev: stopped\n")
        assert [pid for pid in pids if is_alive(pid)] == []


def test_killed() -> None:
    """When `oncekey dev` itself is killed its processes end, also one that never rests."""
    with running(FAILING) as dev, Meeting() as meeting:
        meeting.call(dev, "/spin")
        _, connection = meeting.arrival()
        connection.send("go")
        with watched(dev.pids()) as wait:
            assert dev.stop(signal.SIGKILL) == -signal.SIGKILL
            wait()


@pytest.mark.parametrize("role", ["store", "provider"])
def test_server_dies(role: str) -> None:
    """When the store or the provider dies, `oncekey dev` says so and ends, with status 1."""
    with running() as dev:
        pids = dev.pids()
        [server] = dev.pids(role=role)
        os.kill(server, signal.SIGKILL)
        assert dev.process.wait(timeout=60) == 1
        assert f"oncekey dev: the {role} has died" in dev.log()
        assert [pid for pid in pids if is_alive(pid)] == []


def test_interrupted_while_it_starts() -> None:
    """Ctrl-C before the service is ready ends it as well, with nothing said on standard output."""
    command = [
        sys.executable,
        "-m",
        "oncekey_local.cli",
        "dev",
        "--port",
        "0",
        "--service",
        FAILING,
    ]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as dev:
        assert dev.stderr is not None
        assert dev.stdout is not None
        first_line = dev.stderr.readline()  # the store listens; the functions do not run yet
        assert first_line.startswith("[store ")
        store_pid = int(first_line.split()[1].rstrip("]"))
        dev.send_signal(signal.SIGINT)
        assert dev.wait(timeout=60) == 0
        assert dev.stdout.read() == ""
        assert not is_alive(store_pid)


CHILD = """
from oncekey_local.child import die_at_end_of, die_with_parent

{arrange}
print('ready', flush=True)
while True:
    pass
"""


@pytest.mark.parametrize(
    "arrange",
    [
        "import threading\nthreading.Thread(target=die_at_end_of, args=(0,), daemon=True).start()",
        "import os\ndie_with_parent(os.getppid())",
    ],
)
def test_child_ends_with_its_pipe(arrange: str) -> None:
    """A child that never rests ends when its parent's pipe does."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD.format(arrange=arrange)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.stdin.close()
        assert child.wait(timeout=60) == -signal.SIGKILL


def test_orphan_does_not_start() -> None:
    """A child whose parent has gone before it began does not begin."""
    ended = subprocess.run(
        [sys.executable, "-m", "oncekey_local.child", "1", "this"],
        stdin=subprocess.PIPE,
        capture_output=False,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 1


STARTS_ANOTHER = """
import os, subprocess, sys

other = subprocess.Popen(
    [sys.executable, "-c", "import signal; signal.pause()"], start_new_session={leaves_group}
)
print(other.pid, flush=True)
os._exit(3)
"""


def _after_its_end(folder: Path, *, leaves_group: bool) -> tuple[int, int]:
    """The status of a child that starts another process and ends, and that process's id."""
    (folder / "starts_another.py").write_text(STARTS_ANOTHER.format(leaves_group=leaves_group))
    lines: list[str] = []

    async def waited() -> int:
        child = await Child.start(
            label="child",
            module="starts_another",
            environment=clean_environment() | {"PYTHONPATH": str(folder)},
            on_line=lines.append,
        )
        async with asyncio.timeout(60):
            return await child.wait()

    status = asyncio.run(waited())
    return status, int(lines[0])


def test_what_an_ended_child_has_started_ends_with_it(tmp_path: Path) -> None:
    """A process that ends takes with it what it has started, as a sandbox of Lambda does."""
    status, other = _after_its_end(tmp_path, leaves_group=False)

    assert status == 3
    until = time.monotonic() + 60
    while is_alive(other):
        assert time.monotonic() < until


def test_the_end_of_a_child_is_seen_while_another_process_holds_its_output(tmp_path: Path) -> None:
    """A process's end is seen also if one that it has started lives on and holds its output.

    Otherwise its request and Ctrl-C wait for that other process.
    """
    status, other = _after_its_end(tmp_path, leaves_group=True)

    assert status == 3
    os.kill(other, signal.SIGKILL)


def test_output_without_a_line_s_end_is_forwarded_in_parts(tmp_path: Path) -> None:
    """A function that prints without end and without a new line does not fill the memory."""
    whole = 3_000_000
    (tmp_path / "prints.py").write_text(f"print('x' * {whole}, end='')")
    lines: list[str] = []

    async def waited() -> int:
        child = await Child.start(
            label="child",
            module="prints",
            environment=clean_environment() | {"PYTHONPATH": str(tmp_path)},
            on_line=lines.append,
        )
        return await child.wait()

    assert asyncio.run(waited()) == 0
    assert "".join(lines) == "x" * whole
    assert max(map(len, lines)) < 1_000_000
