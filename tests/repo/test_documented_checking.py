"""The page about checking a handler: its code runs, its message and tables are the real ones."""

from __future__ import annotations

from typing import Any

import pytest

from oncekey.testing import assert_idempotent, crash_points
from tests.support.documents import blocks, rows, run_example, text_of

PAGE = "layer/docs/guides/checking-a-handler.md"


def test_the_documented_check_passes_and_the_crashes_are_survived() -> None:
    """The examples, word for word, one after the other."""
    names = run_example("layer/docs/guides/checking-a-handler.md", "def test_order")
    names["test_order"]()
    given = {"order": names["order"], "event": names["event"]}
    run_example("layer/docs/guides/checking-a-handler.md", 'store.crash("after complete")', **given)
    run_example("layer/docs/guides/checking-a-handler.md", "clock.advance", **given)


def test_the_documented_failure_is_the_real_one() -> None:
    """The message of the handler without its step, and the plays of the one with it."""
    code = next(code for language, code in blocks(PAGE) if "def test_order" in code)
    names: dict[str, Any] = {}
    # The list is a provider without keys, which the handler calls without a step.
    mistaken = code.replace("charges = {}", "charges = []").replace(
        'op.step("charge", lambda: charges.setdefault(key, event["body"]), idempotent=True)',
        'charges.append(event["body"])',
    )
    exec(compile(mistaken, PAGE, "exec"), names)  # noqa: S102
    with pytest.raises(AssertionError) as caught:
        names["test_order"]()
    (message,) = [text for language, text in blocks(PAGE) if language == "text"]
    assert str(caught.value) == message.rstrip("\n")


def test_every_play_is_documented() -> None:
    """The page names the plays that a handler can be put through."""
    names = run_example("layer/docs/guides/checking-a-handler.md", "def test_order")
    played = assert_idempotent(names["order"], names["event"], effects=names["charges"])
    documented = "".join(row[0] for row in rows(text_of(PAGE), "## What is played"))
    assert [play for play in played[1:9] if f"`{play}`" not in documented] == []


def test_every_crash_point_is_documented() -> None:
    """The table has each call of the store, and no other."""
    cells = [row[0] for row in rows(text_of(PAGE), "## Kill it yourself")]
    documented = {name.strip("` ").removesuffix(" NAME") for c in cells for name in c.split(",")}
    assert documented == set(crash_points.NAMES)
