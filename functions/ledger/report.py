"""The report for people: a verdict, then one line for each finding."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from typing import IO, TYPE_CHECKING

import boto3

from functions.ledger.time_budget import CALLS
from functions.shared.settings import setting
from oncekey.ledger import Different, OnlyOurs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client

    from functions.ledger.models import Entry, Found, Outcome

PREFIX = "reports/ledger/"


class Report:
    """Any number of lines, collected in a temporary file."""

    def __init__(self, lines: IO[bytes]) -> None:
        self._lines = lines

    def add(self, found: Found) -> None:
        """Add a finding."""
        self._lines.write(f"{line(found)}\n".encode())

    def keep(self, outcome: Outcome) -> str:
        """Store the report in the bucket, and return its key. A complete one has its own name.

        Raises:
            NotConfigured: ONCEKEY_RESPONSE_BUCKET is not set.
            ClientError, BotoCoreError: the bucket did not store it.
        """
        state = "" if outcome.totals else "-incomplete"
        key = f"{PREFIX}{outcome.window.name}-{outcome.ledger}{state}.txt"
        client: S3Client = boto3.client("s3", config=CALLS)
        with tempfile.TemporaryFile() as whole:
            head = f"{outcome.ledger}, {outcome.window}\n{outcome.verdict}\n\n"
            whole.write(head.encode())
            self._lines.seek(0)
            shutil.copyfileobj(self._lines, whole)
            whole.seek(0)
            client.put_object(
                Bucket=setting("ONCEKEY_RESPONSE_BUCKET"),
                Key=key,
                Body=whole,
                ContentType="text/plain; charset=utf-8",
            )
        return key


@contextlib.contextmanager
def report() -> Iterator[Report]:
    """A report, whose file is deleted at the end of the block."""
    with tempfile.TemporaryFile() as lines:
        yield Report(lines)


def line(found: Found) -> str:
    """A finding with all its values, for the bucket."""
    if isinstance(found, Different):
        unlike = ", ".join(
            f"{each.name} ours {_plain(each.ours)} theirs {_plain(each.theirs)}"
            for each in found.fields
        )
        return f"different    {_plain(found.id)}: {unlike}"
    side = "only ours   " if isinstance(found, OnlyOurs) else "only theirs "
    return f"{side} {_plain(found.id)}: {_entry(found.row)}"


def brief(found: Found) -> str:
    """A finding without its values, for the log."""
    if isinstance(found, Different):
        return f"different {_plain(found.id)}: {', '.join(each.name for each in found.fields)}"
    return f"{'only ours' if isinstance(found, OnlyOurs) else 'only theirs'} {_plain(found.id)}"


def _entry(entry: Entry) -> str:
    values = {
        "provider_id": entry.provider_id,
        "amount": entry.amount,
        "currency": entry.currency,
        "status": entry.status,
    }
    return ", ".join(
        f"{name} {_plain(value)}" for name, value in values.items() if value is not None
    )


def _plain(value: object) -> str:
    """The value in one line. Metadata may contain any text, including line breaks."""
    text = str(value)
    return text if text.isprintable() else json.dumps(text)
