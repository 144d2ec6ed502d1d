"""Fingerprints with a secret, with an older one, by an older algorithm."""

from __future__ import annotations

import pytest

from oncekey.http import fingerprint as module
from oncekey.http.event import HttpRequest, read_request
from oncekey.http.fingerprint import Fingerprint, fingerprints
from tests.support.events import load, with_body

FIRST, SECOND, THIRD = b"first secret 0123", b"second secret 012", b"third secret 0123"
REQUEST = read_request(load("apigw_http_v2_post"))
OTHER = read_request(with_body(load("apigw_http_v2_post"), '{"amount": 2}'))


def of(request: HttpRequest, *secrets: bytes) -> Fingerprint:
    """Its fingerprint under these secrets."""
    return fingerprints(request, None, secrets)


def test_without_a_secret_it_is_the_plain_one() -> None:
    """No secret: what is stored is what it always was, and only that is accepted."""
    plain = "f1:" + module.ALGORITHMS["f1:"](REQUEST, None)

    assert of(REQUEST).current == plain
    assert of(REQUEST).accepts(plain)
    assert not of(REQUEST).accepts(of(REQUEST, FIRST).current)


def test_a_secret_makes_it_another_of_the_same_form() -> None:
    """Whoever can guess the request cannot compute the fingerprint without the secret.

    Red when the secret is not part of it, or the version is lost.
    """
    found = {of(REQUEST, *secrets).current for secrets in ((), (FIRST,), (SECOND,))}

    assert len(found) == 3
    assert all(text.startswith("f1:") and len(text) == 46 for text in found)
    assert of(REQUEST, FIRST).current != of(OTHER, FIRST).current


def test_the_newest_secret_is_stored_and_every_known_one_accepted() -> None:
    """New records are under the first secret; records under any other, or none, still count.

    Red when the order does not matter, or older secrets are not tried.
    """
    rotated = of(REQUEST, THIRD, SECOND, FIRST)

    assert rotated.current == of(REQUEST, THIRD).current
    for recorded in ((), (FIRST,), (SECOND,), (THIRD,)):
        assert rotated.accepts(of(REQUEST, *recorded).current)
        assert not rotated.accepts(of(OTHER, *recorded).current)
    assert not of(REQUEST, THIRD, SECOND).accepts(of(REQUEST, FIRST).current)


def _f2(request: HttpRequest, _select: object) -> str:
    return f"hash-of-{len(request.body)}-{request.path}"


def test_records_by_an_older_algorithm_are_compared_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A release with a new algorithm stores by that one and knows the requests of the old one, with
    a secret too.

    Red when a stored fingerprint is compared by the newest algorithm alone.
    """
    before = [of(REQUEST).current, of(REQUEST, FIRST).current]
    misuse = [of(OTHER).current, of(OTHER, FIRST).current]
    monkeypatch.setattr(module, "ALGORITHMS", {"f2:": _f2, **module.ALGORITHMS})

    after = of(REQUEST, FIRST)

    assert after.current.startswith("f2:")
    assert of(REQUEST).current == f"f2:{_f2(REQUEST, None)}"
    assert all(after.accepts(recorded) for recorded in [*before, after.current])
    assert not any(after.accepts(recorded) for recorded in misuse)


def test_the_hash_of_one_algorithm_is_no_proof_under_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The version is compared with the hash: the same hash under another version is not accepted.

    Red when the version is cut off before comparing.
    """
    plain = of(REQUEST).current.removeprefix("f1:")
    monkeypatch.setattr(module, "ALGORITHMS", {"f2:": _f2, **module.ALGORITHMS})

    assert of(REQUEST).accepts(f"f1:{plain}")
    assert not of(REQUEST).accepts(f"f2:{plain}")


@pytest.mark.parametrize("recorded", ["", ":", "f9:abc", "f1", "f1:", "abc", "F1:x"])
def test_what_is_not_known_is_not_accepted(recorded: str) -> None:
    """A version of a newer release, or no fingerprint at all: another request.

    Red when what cannot be compared passes.
    """
    assert not of(REQUEST, FIRST).accepts(recorded)


def test_a_fingerprint_shows_no_secret() -> None:
    """Neither what is stored nor its comparison contains the secret itself."""
    assert FIRST.decode() not in of(REQUEST, FIRST).current
