"""`assert_idempotent` names each typical mistake, and passes the same handler without it."""

from __future__ import annotations

import re

import pytest

from oncekey.testing import assert_idempotent
from tests.support.mistaken_handlers import MISTAKES, Mistaken

pytestmark = pytest.mark.parametrize(
    "mistaken", MISTAKES, ids=[each.make.__name__ for each in MISTAKES]
)


def test_a_mistake_is_named_with_a_line_that_shows_it_again(mistaken: Mistaken) -> None:
    """The message names the mistake, and its last line plays the same alone."""
    sample = mistaken.make(mistaken=True)
    with pytest.raises(AssertionError) as caught:
        assert_idempotent(sample.handler, sample.event, **sample.options)
    message = str(caught.value)
    assert mistaken.words in message
    again = re.search(r"only='(.+?)'", message)
    assert again is not None
    sample = mistaken.make(mistaken=True)
    with pytest.raises(AssertionError, match=re.escape(mistaken.words)):
        assert_idempotent(sample.handler, sample.event, **sample.options, only=again[1])


def test_the_corrected_handler_passes(mistaken: Mistaken) -> None:
    """Without the mistake, the same handler passes every play."""
    sample = mistaken.make(mistaken=False)
    played = assert_idempotent(sample.handler, sample.event, **sample.options)
    assert {"again", "five at once", "kill before reserve", "kill after complete"} <= {*played}
