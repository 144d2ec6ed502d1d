"""Recognises an answer of ours that says "same key, wait", in the hands of whoever passes it on.

A handler that calls another protected operation and returns its "still running" has not ended. The
refusal is known by its body, which is an object of a type of its own: it stays one where the answer
is copied, gets more headers or becomes a response of Powertools. Text that merely reads the same,
which an author may have stored or got from elsewhere, is never taken for ours.
"""

from __future__ import annotations

from typing import Any, cast

from oncekey.problem import PROBLEMS


class NotNowBody(str):
    """The text of a refusal that is to be asked for again; `status` is the one it belongs to."""

    __slots__ = ("status",)

    status: int

    @classmethod
    def of(cls, text: str, status: int) -> NotNowBody:
        """`text` as the body of an answer of this status."""
        body = cls(text)
        body.status = status
        return body


def marked(answer: dict[str, Any], code: str) -> dict[str, Any]:
    """`answer`, which is our refusal for the problem `code`, so that it is known again."""
    return as_our_refusal(answer) if PROBLEMS[code].retryable else answer


def as_our_refusal(answer: dict[str, Any]) -> dict[str, Any]:
    """`answer`, which says that the same key is to be sent again, so that it is known again."""
    return {**answer, "body": NotNowBody.of(answer["body"], answer["statusCode"])}


def is_our_refusal(answer: object) -> bool:
    """Whether `answer` is one of ours that is to be asked for again, in any preset.

    Under another status its body is what somebody else says.
    """
    # What an object says of its own class, or of its members, is code of its author's.
    if not issubclass(type(answer), dict):
        return False
    known = cast("dict[str, Any]", answer)
    body = dict.get(known, "body")
    return type(body) is NotNowBody and body.status == dict.get(known, "statusCode")
