"""Threads that call first at the same time: one client of each service is made, and all use it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import boto3
import pytest

from oncekey.store import defaults
from oncekey.store import s3 as s3_bucket
from oncekey.store import sqs as sqs_queue
from oncekey.store.dynamodb import client as dynamodb_client
from oncekey.store.dynamodb import outbox as dynamodb_outbox
from oncekey.store.dynamodb import store as dynamodb_store
from oncekey.store.dynamodb.outbox import OutboxTable
from oncekey.store.dynamodb.store import DynamoDBStore
from oncekey.store.s3 import ResponseBucket
from oncekey.store.sqs import SqsQueue

if TYPE_CHECKING:
    from collections.abc import Callable

WHO: dict[str, Callable[[], Any]] = {
    "table": lambda: DynamoDBStore("a-table"),
    "outbox": lambda: OutboxTable("an-outbox"),
    "bucket": lambda: ResponseBucket("a-bucket"),
    "queue": lambda: SqsQueue("https://queue.example/1"),
}


class Turnstile:
    """A lock that says when a second thread has come to it, or past it."""

    def __init__(self) -> None:
        self.second_came = threading.Event()
        self._lock = threading.RLock()
        self._came = 0

    def __enter__(self) -> None:
        self._came += 1
        if self._came == 2:
            self.second_came.set()
        self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()


@pytest.mark.fault("K12.8")
@pytest.mark.parametrize("name", WHO)
def test_two_first_calls_make_one_client(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second thread that comes while the client is being made waits for it and uses it.

    Red when a client is made without a lock, or without a second look under it.
    """
    turnstile, made = Turnstile(), []

    def make(service: str, **_options: Any) -> object:
        made.append(service)
        if len(made) == 1:
            # Its maker is in the middle when the other one calls for the first time, too.
            other.start()
            turnstile.second_came.wait()
        else:
            turnstile.second_came.set()
        return Mock()

    monkeypatch.setattr(boto3, "client", make)
    for module in (dynamodb_client, dynamodb_outbox, dynamodb_store, s3_bucket, sqs_queue):
        monkeypatch.setattr(module, "making_a_client", turnstile, raising=False)
    user = WHO[name]()
    got: list[object] = []
    other = threading.Thread(target=lambda: got.append(user._connected()))

    got.append(user._connected())
    other.join()

    assert len(made) == 1
    assert got[0] is got[1]


@pytest.mark.fault("K12.8")
def test_two_first_calls_are_given_one_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers that ask for the default store at the same time share it, and so its client.

    Red when each of two threads that come first is given a store of its own.
    """
    monkeypatch.setenv("ONCEKEY_TABLE", "a-table-of-two-threads")
    turnstile, made = Turnstile(), []

    class Slow(DynamoDBStore):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)
            if len(made) == 1:
                other.start()
                turnstile.second_came.wait()
            else:
                turnstile.second_came.set()

    monkeypatch.setattr(dynamodb_store, "DynamoDBStore", Slow)
    monkeypatch.setattr(defaults, "_making_a_store", turnstile, raising=False)
    got: list[object] = []
    other = threading.Thread(target=lambda: got.append(defaults.store(1_500)))

    got.append(defaults.store(1_500))
    other.join()
    defaults._store.cache_clear()

    assert len(made) == 1
    assert got[0] is got[1]


def test_a_program_without_boto3_gets_the_same_client_from_botocore() -> None:
    """Nothing loads boto3 but the program itself; a program that has loaded it gets its session's.

    Red when our client imports boto3, which takes a tenth of a cold start.
    """
    program = (
        "import sys\n"
        "from oncekey.store.dynamodb.client import own_client\n"
        "made = own_client(1500)\n"
        "first = 'boto3' in sys.modules, made.meta.region_name, made.meta.config.read_timeout\n"
        "import boto3\n"
        "boto3.setup_default_session(region_name='eu-west-3')\n"
        "print(*first, own_client(1500).meta.region_name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "AWS_DEFAULT_REGION": "eu-central-1", "ONCEKEY_TRANSPORT": "sdk"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == ["False", "eu-central-1", "1.0", "eu-west-3"]


def test_boto3_that_another_thread_is_loading_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that another thread is loading is known before it has its functions: the client is
    botocore's, as if boto3 were not loaded.

    Red when a first call fails at that moment.
    """
    monkeypatch.setitem(sys.modules, "boto3", ModuleType("boto3"))
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")

    made = dynamodb_client.own_client(1_500, "sdk")

    assert made.meta.region_name == "eu-central-1"
