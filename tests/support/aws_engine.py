"""AWS in this process: moto, with client tokens compared as DynamoDB compares them."""

from __future__ import annotations

import contextlib
from functools import cache
from typing import TYPE_CHECKING

import boto3
import botocore.hooks
from botocore.compat import accepts_kwargs
from moto import mock_aws
from moto.core import models

from oncekey_local.store.moto_repairs import check_client_tokens
from oncekey_local.store.quick_moto import quicken

if TYPE_CHECKING:
    from collections.abc import Iterator

# Clients of botocore alone call AWS here. For those of `requests`, moto would prepare a thousand
# addresses each time that it begins.
vars(models)["RESPONSES_METHODS"] = []
# It asks this of the same sixty functions for each session.
vars(botocore.hooks)["accepts_kwargs"] = cache(accepts_kwargs)


@contextlib.contextmanager
def mocked_aws(*, honours_tokens: bool = False) -> Iterator[None]:
    """Every client made meanwhile reaches moto; two transactions under one token are refused.

    A repeat of a transaction is applied again, which is the harder case for its conditions; with
    `honours_tokens` it is answered as DynamoDB answers it.
    """
    quicken()
    check_client_tokens(honours_repeats=honours_tokens)
    with mock_aws():
        # Moto takes the session away, and to make another one takes longer than many tests.
        boto3.DEFAULT_SESSION = _session()
        yield


@cache
def _session() -> boto3.Session:
    return boto3.Session()
