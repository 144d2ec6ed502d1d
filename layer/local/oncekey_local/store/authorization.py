"""The signature of the local runtime's own requests to the local store."""

from __future__ import annotations

from oncekey_local.functions.environment import REGION


def authorization(aws_service: str) -> str:
    """The header `Authorization` of a request to this AWS service, such as `s3`.

    The store looks for the region in the signature's scope and checks nothing else of it.
    """
    return (
        f"AWS4-HMAC-SHA256 Credential=local/20260101/{REGION}/{aws_service}/aws4_request, "
        "SignedHeaders=host, Signature=none"
    )
