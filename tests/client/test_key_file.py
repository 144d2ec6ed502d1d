"""A key that is stored before the first request, and found after a restart."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from oncekey import OncekeyError
from oncekey.client import KeyFile
from oncekey.http.http_date import http_date
from oncekey.http.key import first_sent_ms, idempotency_key
from oncekey.testing import ManualClock
from tests.client.servers import LOST, NO_ANSWER, OK, Server, by_httpx

if TYPE_CHECKING:
    from pathlib import Path


def test_a_restarted_program_goes_on_under_its_key(tmp_path: Path) -> None:
    """The key and the time of the first sending are those of the process that ended."""
    server = Server([LOST])
    clock = ManualClock()
    with pytest.raises(NO_ANSWER):
        by_httpx(server, headers=KeyFile(tmp_path / "order-7.key", clock=clock).headers())
    clock.advance(3_600_000)
    server.script = [OK]

    by_httpx(server, headers=KeyFile(tmp_path / "order-7.key", clock=clock).headers())

    assert len(server.keys) == 1
    assert {sent.first_sent for sent in server.got} == {http_date(ManualClock().now_ms() // 1000)}


def test_the_headers_are_those_that_the_service_reads(tmp_path: Path) -> None:
    """The service accepts the key and the date."""
    headers = KeyFile(tmp_path / "key").headers()

    assert idempotency_key([headers["Idempotency-Key"]]) == headers["Idempotency-Key"]
    assert first_sent_ms([headers["Repeatability-First-Sent"]]) is not None


def test_two_processes_that_begin_at_once_have_one_key(tmp_path: Path) -> None:
    """Whoever is first makes the key, and nothing else is left in the folder."""
    files = [KeyFile(tmp_path / "key") for _ in range(20)]

    with ThreadPoolExecutor(20) as pool:
        keys = {headers["Idempotency-Key"] for headers in pool.map(KeyFile.headers, files)}

    assert len(keys) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_the_second_process_takes_the_key_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that appears between the look and the making is not replaced."""
    path = tmp_path / "key"
    found: list[dict[str, str]] = []

    def link(draft: Path, target: Path) -> None:
        monkeypatch.undo()
        found.append(KeyFile(path).headers())
        os.link(draft, target)

    monkeypatch.setattr("os.link", link)

    assert KeyFile(path).headers() == found[0]


def test_a_key_that_is_forgotten_meanwhile_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may forget the key between the making and the reading."""
    path = tmp_path / "key"
    link = os.link

    def linked(draft: Path, target: Path) -> None:
        monkeypatch.undo()
        link(draft, target)
        KeyFile(path).forget()

    monkeypatch.setattr("os.link", linked)

    assert KeyFile(path).headers()["Idempotency-Key"] in path.read_text()


def test_a_key_outlives_a_loss_of_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is on disk when a key is made, found or forgotten: also whoever finds it sends it.

    Red when the second process sends a key that the first has not yet made durable.
    """
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", lambda file: synced.append(os.fstat(file).st_ino))
    folder = tmp_path.stat().st_ino
    file = KeyFile(tmp_path / "key")

    for call in (file.headers, file.headers, file.forget):
        synced.clear()
        call()
        assert synced[-1:] == [folder]


def test_a_file_system_without_hard_links_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what the file needs, no request gets a key, and nothing is left behind."""

    def refused(_source: object, _target: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)

    with pytest.raises(OSError, match="a KeyFile needs hard links"):
        KeyFile(tmp_path / "order.key").headers()
    assert [*tmp_path.iterdir()] == []


def test_a_forgotten_key_is_made_anew(tmp_path: Path) -> None:
    """The next operation has another key; forgetting twice is no error."""
    file = KeyFile(tmp_path / "key")
    first = file.headers()
    file.forget()
    file.forget()

    assert file.headers() != first


def test_a_file_with_something_else_is_refused(tmp_path: Path) -> None:
    """A damaged file is no reason for a new key: the old one may have been sent."""
    (tmp_path / "key").write_text("half a k")

    with pytest.raises(OncekeyError, match="holds no key"):
        KeyFile(tmp_path / "key").headers()


def test_a_key_is_made_where_no_folder_can_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows refuses to open a folder, and scripts run there, too."""

    def open_(path: os.PathLike[str], flags: int, *_mode: int) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(path), flags)

    monkeypatch.setattr("oncekey.client.key_file._FOLDERS_CAN_BE_OPENED", False)
    monkeypatch.setattr(os, "open", open_)
    file = KeyFile(tmp_path / "key")
    headers = file.headers()

    assert KeyFile(tmp_path / "key").headers() == headers
    file.forget()
    assert not (tmp_path / "key").exists()
