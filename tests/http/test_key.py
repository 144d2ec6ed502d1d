"""The Idempotency-Key header: what is one key, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncekey.errors import RequestRefused
from oncekey.http.key import DEFAULT_MIN_KEY_LENGTH, idempotency_key
from oncekey.settings import MAX_KEY_LENGTH

UUID = "8e03978e-40d5-43e8-bc93-6894a57f9324"

ACCEPTED = {
    UUID: UUID,
    f'"{UUID}"': UUID,
    f" \t{UUID}\t ": UUID,
    f' "{UUID}" ': UUID,
    "KG5LxwFBepaKHyUD": "KG5LxwFBepaKHyUD",
    "1234567890123456": "1234567890123456",
    "!#$%&'()*+-./:<=>?@[]^_`{|}~": "!#$%&'()*+-./:<=>?@[]^_`{|}~",
    '"comma,semicolon;equals=1"': "comma,semicolon;equals=1",
    r'"a quote \" is no visible end"'.replace(" ", "-"): 'a-quote-"-is-no-visible-end',
    r'"a\\b0123456789012"': "a\\b0123456789012",
    '"0123456789 0123456789"': "0123456789 0123456789",
    '" 0123456789012345 "': " 0123456789012345 ",
    r"a\b0123456789012": "a\\b0123456789012",
    r'"\"\"\"\"\"\"\"\"\\\\\\\\\\\\\\\\"': '"' * 8 + "\\" * 8,
    "=?utf-8?q?0123456789?=": "=?utf-8?q?0123456789?=",
}

REFUSED = {
    "empty": "",
    "blank": "   ",
    "an empty string": '""',
    "a string of spaces": '"                    "',
    "a space inside": "0123456789 0123456789",
    "a tab inside": "0123456789\t0123456789",
    "a line break": f"{UUID}\n",
    "a line break inside quotes": '"0123456789\n0123456789"',
    "a NUL": "0123456789012345\x00",
    "a DEL": "0123456789012345\x7f",
    "a letter beyond ASCII": "0123456789012345é",
    "a letter beyond ASCII in quotes": '"0123456789012345é"',
    "a digit beyond ASCII": "012345678901234\u0665",
    "a no-break space around": f"\xa0{UUID}\xa0",
    "a lone surrogate": "0123456789012345\ud800",
    "a list": f"{UUID},{UUID}",
    "a list with a space": f"{UUID}, another-key-0123456789",
    "a list of strings": '"0123456789012345", "0123456789012346"',
    "a trailing comma": f"{UUID},",
    "a parameter": f"{UUID};p=1",
    "a parameter of a string": f'"{UUID}";p=1',
    "a semicolon": f"{UUID};",
    "a quote never closed": f'"{UUID}',
    "a quote never opened": f'{UUID}"',
    "a quote alone": '"',
    "a quote inside": '0123456"890123456',
    "a quote inside quotes": '"0123456"890123456"',
    "something after the quotes": f'"{UUID}"x',
    "an unknown escape": r'"0123456789012345\n"',
    "an escape of the end": '"0123456789012345\\"',
    "single quotes are no quotes, but a comma is a list": f"'{UUID},'",
}


@pytest.mark.requirement("D9")
@pytest.mark.parametrize(("line", "key"), ACCEPTED.items())
def test_both_spellings_are_read(line: str, key: str) -> None:
    """A quoted string is unescaped, a bare one taken as it is, whatever begins it.

    Red when the parser is a strict structured-field parser, or keeps quotes or escapes.
    """
    assert idempotency_key([line]) == key


@pytest.mark.requirement("D9")
@given(
    st.text(
        st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=16, max_size=255
    ).filter(str.strip)
)
def test_quoted_and_bare_are_one_key(key: str) -> None:
    """A key that can be written both ways is the same key in both.

    Red when a quoted key keeps its quotes.
    """
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')

    assert idempotency_key([f'"{escaped}"']) == key
    if not set('",; ') & set(key):
        assert idempotency_key([key]) == key


@pytest.mark.requirement("C22")
@pytest.mark.case(32)
@pytest.mark.parametrize("line", REFUSED.values(), ids=REFUSED)
def test_what_is_not_one_key_is_refused(line: str) -> None:
    """Blank keys, lists, parameters, and anything but printable ASCII are refused as invalid.

    Red when a blank key counts as a key, or the character rules are widened.
    """
    with pytest.raises(RequestRefused) as caught:
        idempotency_key([line])
    assert caught.value.code == "key-invalid"


@pytest.mark.requirement("B12")
def test_no_header_is_no_key() -> None:
    """Without the header there is no key, none is made up, and the caller is told what to send.

    Red when `idempotency_key` draws a key, or returns an empty one.
    """
    with pytest.raises(RequestRefused, match="needs an Idempotency-Key header") as caught:
        idempotency_key([])
    assert caught.value.code == "key-missing"


@pytest.mark.requirement("C22")
@pytest.mark.parametrize("quote", ["", '"'], ids=["bare", "quoted"])
def test_a_key_has_at_most_255_characters(quote: str) -> None:
    """255 characters are a key, 256 are not; quotes and escapes do not count.

    Red when the limit moves, or counts the quotes.
    """
    longest = "k" * MAX_KEY_LENGTH

    assert MAX_KEY_LENGTH == 255
    assert idempotency_key([f"{quote}{longest}{quote}"]) == longest
    with pytest.raises(RequestRefused, match="has 256 characters: 16 to 255 are allowed") as caught:
        idempotency_key([f"{quote}{longest}k{quote}"])
    assert caught.value.code == "key-invalid"


def test_a_guessable_key_is_refused() -> None:
    """A key shorter than the least length could be guessed; the length is a setting."""
    assert DEFAULT_MIN_KEY_LENGTH == 16
    assert idempotency_key(["k" * 16]) == "k" * 16
    assert idempotency_key(["k"], min_length=1) == "k"
    with pytest.raises(RequestRefused, match="has 15 characters: 16 to 255 are allowed"):
        idempotency_key(["k" * 15])
    with pytest.raises(RequestRefused, match="has 15 characters"):
        idempotency_key([f'"{"k" * 15}"'])


def test_an_empty_key_is_refused_even_without_a_least_length() -> None:
    """A least length of 0 still means one character."""
    for line in ("", '""'):
        with pytest.raises(RequestRefused, match="has 0 characters: 1 to 255"):
            idempotency_key([line], min_length=0)


def test_a_line_repeated_unchanged_is_one_key() -> None:
    """A proxy that doubles a line changes nothing."""
    assert idempotency_key([UUID, f" {UUID}", UUID]) == UUID


@pytest.mark.parametrize("other", ["another-key-0123456789", UUID.upper(), "", f'"{UUID}"'])
def test_repeated_lines_that_differ_are_refused(other: str) -> None:
    """Which of two keys was meant cannot be known."""
    with pytest.raises(RequestRefused, match="more than once, with different values") as caught:
        idempotency_key([UUID, other])
    assert caught.value.code == "key-invalid"


@pytest.mark.requirement("C22")
def test_a_key_is_opaque() -> None:
    """Letter case, leading zeros and shape of a key mean nothing and are kept.

    Red when a key is lowered, parsed as a UUID or as a number.
    """
    for key in (UUID.upper(), "{" + UUID + "}", "0000000000000001", "true------------"):
        assert idempotency_key([key]) == key


@pytest.mark.parametrize("line", [value for value in REFUSED.values() if len(value) > 15])
def test_a_refusal_repeats_no_key(line: str) -> None:
    """The refusal's text, which may be logged, says what is wrong without the value."""
    with pytest.raises(RequestRefused) as caught:
        idempotency_key([line])

    assert line.strip() not in caught.value.detail
