"""The kinds of refusal: stable codes, with what they mean for the client.

The codes and statuses are a contract with clients; draft-ietf-httpapi-idempotency-key-header-07,
section 2.7, suggests the statuses 400, 409 and 422 and the titles of those cases.

A handler that calls another protected operation and returns its "still running" answer has not
ended. So the library recognises its own "same key, wait" answer, by its body, which has a type of
its own. The body keeps this type if the answer is copied, gets more headers or becomes a response
of Powertools. Other text with the same content, which an author may have stored or received, is
never taken for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Problem(NamedTuple):
    """A kind of refusal.

    `retryable`: True means "same key, wait"; False means "do not send this again".
    """

    status: int
    title: str
    detail: str
    retryable: bool


_AGAIN = "Send the same request with the same key again after the time in Retry-After."

# The detail of `store-unavailable` if only a deployment helps.
STORE_NOT_SET_UP = (
    "The request was not carried out, because the idempotency store is not set up as this service"
    " needs it. Waiting does not help; the same key may be sent again once that has been put right."
)

PROBLEMS: dict[str, Problem] = {
    "key-missing": Problem(
        status=400,
        title="Idempotency-Key is missing",
        detail="This operation needs an Idempotency-Key header.",
        retryable=False,
    ),
    "key-invalid": Problem(
        status=400,
        title="Idempotency-Key is invalid",
        detail="The Idempotency-Key is malformed.",
        retryable=False,
    ),
    "request-invalid": Problem(
        status=400,
        title="The request is invalid",
        detail="The request does not have the form that this operation needs; nothing was done.",
        retryable=False,
    ),
    "signature-invalid": Problem(
        status=400,
        title="The signature is invalid",
        detail="The request is not signed as the sender of these events signs; nothing was done.",
        retryable=False,
    ),
    "event-invalid": Problem(
        status=400,
        title="The event is invalid",
        detail="The request is signed, and is no event that is known here; nothing was done.",
        retryable=False,
    ),
    "tenant-missing": Problem(
        status=403,
        title="The caller's tenant is not known",
        detail="The verified request context does not say whose key this is; nothing was done.",
        retryable=False,
    ),
    "method-not-allowed": Problem(
        status=405,
        title="The method is not allowed here",
        detail="This operation does not take requests with this method; nothing was done.",
        retryable=False,
    ),
    "key-reused": Problem(
        status=422,
        title="Idempotency-Key is already used",
        detail="This key was used for a different request. Take a new key for a new operation.",
        retryable=False,
    ),
    "request-in-progress": Problem(
        status=409,
        title="A request is outstanding for this Idempotency-Key",
        detail=f"The first request with this key is still running. {_AGAIN}"
        " A new key would run it twice.",
        retryable=True,
    ),
    "outcome-unknown": Problem(
        status=409,
        title="The outcome of this Idempotency-Key is not known yet",
        detail="The first request with this key was interrupted and may have taken effect."
        f" {_AGAIN}"
        " A new key could run it twice.",
        retryable=True,
    ),
    "store-unavailable": Problem(
        status=503,
        title="The idempotency store is unavailable",
        detail="The request was not carried out now, or its outcome could not be confirmed."
        f" {_AGAIN} It then runs, or gets its answer. A new key could run it twice.",
        retryable=True,
    ),
    "paused": Problem(
        status=503,
        title="New work is paused",
        detail=f"New work is paused. {_AGAIN}",
        retryable=True,
    ),
    "quota-exceeded": Problem(
        status=429,
        title="The quota of keys is used up",
        detail="There are too many new or active keys, or repeats of keys, for now; nothing was"
        f" done. {_AGAIN} A new key does not help.",
        retryable=True,
    ),
    "operation-unknown": Problem(
        status=404,
        title="There is no such operation",
        detail="There is no operation of this id, or it is not yours, or its answer has expired.",
        retryable=False,
    ),
    "not-started-in-time": Problem(
        status=408,
        title="The request was not started in time",
        detail="The request was accepted, and no worker began it in time; nothing was done, and"
        " this answer is final. Take a new key to ask for it again.",
        retryable=False,
    ),
    "key-expired": Problem(
        status=410,
        title="The Idempotency-Key has expired",
        detail="The answer to this key is no longer kept. Take a new key for a new operation.",
        retryable=False,
    ),
    "request-too-old": Problem(
        status=412,
        title="The request was first sent too long ago",
        detail="An answer to this request may have been forgotten, so it was not run again."
        " Find out what became of it before you take a new key.",
        retryable=False,
    ),
    "answer-unavailable": Problem(
        status=500,
        title="The stored answer is not available",
        detail="The request was carried out once, but its answer cannot be given again."
        " It will not run again under this key.",
        retryable=False,
    ),
    "request-failed": Problem(
        status=500,
        title="The request failed",
        detail="The request failed and may have had an effect. This answer is final: the same key"
        " gets it again.",
        retryable=False,
    ),
    "not-executed": Problem(
        status=503,
        title="This attempt was not carried out",
        detail=f"This attempt was not carried out. {_AGAIN} A new key could run it twice.",
        retryable=True,
    ),
    "attempt-unfinished": Problem(
        status=503,
        title="This attempt ended before it had an answer",
        detail="This attempt ended before it had an answer, and what the request has done so far"
        f" stands. {_AGAIN} It then goes on where it was. A new key could run it twice.",
        retryable=True,
    ),
}


class NotNowBytes(bytes):
    """The encoded body of a retryable refusal, as a response of an ASGI app sends it."""

    text: NotNowBody


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

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """The bytes of the text, which are known as a refusal's, too."""
        encoded = NotNowBytes(str.encode(self, encoding, errors))
        encoded.text = self
        return encoded


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
