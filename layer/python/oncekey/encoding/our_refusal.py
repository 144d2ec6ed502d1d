"""Recognises the library's own "same key, wait" answer when a handler returns it.

A handler that calls another protected operation and returns its "still running" answer has not
ended. The answer is recognised by its body, which has a type of its own. The body keeps this type
if the answer is copied, gets more headers or becomes a response of Powertools. Other text with the
same content, which an author may have stored or received, is never taken for it.
"""

from __future__ import annotations

from typing import Any

from oncekey.problem import PROBLEMS


class NotNowBody(str):
    """The body of a retryable refusal. `status` is the status of its answer."""

    __slots__ = ("status",)

    status: int

    @classmethod
    def of(cls, text: str, status: int) -> NotNowBody:
        """`text` as the body of an answer of this status."""
        body = cls(text)
        body.status = status
        return body


def marked(answer: dict[str, Any], code: str) -> dict[str, Any]:
    """`answer`, our refusal for the problem `code`, marked as ours if it is retryable."""
    return as_our_refusal(answer) if PROBLEMS[code].retryable else answer


def as_our_refusal(answer: dict[str, Any]) -> dict[str, Any]:
    """`answer`, our retryable refusal, marked as ours."""
    return {**answer, "body": NotNowBody.of(answer["body"], answer["statusCode"])}


def is_our_refusal(answer: Any) -> bool:
    """Whether `answer` is a retryable refusal of ours, in any preset.

    If its body has been put under another status, it is the handler's own answer.
    """
    # `isinstance`, `get` and `==` could run the author's code.
    if not issubclass(type(answer), dict):
        return False
    body: Any = dict.get(answer, "body")
    return type(body) is NotNowBody and body.status == dict.get(answer, "statusCode")
