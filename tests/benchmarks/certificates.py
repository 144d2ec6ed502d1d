"""A certificate for the loopback server, beside the usual authorities that a client has to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.httpsession import where

from tests.support.certificates import self_signed

if TYPE_CHECKING:
    from pathlib import Path


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Files in `folder`: the certificate of 127.0.0.1 with its key, and a bundle that trusts it.

    The bundle has all the authorities of boto3's own, because reading them takes time.
    """
    certificate, private = self_signed()
    chain, bundle = folder / "chain.pem", folder / "bundle.pem"
    chain.write_bytes(private + certificate)
    with open(where(), "rb") as authorities:  # noqa: PTH123 -- a path of botocore's, as text
        bundle.write_bytes(authorities.read() + b"\n" + certificate)
    return chain, bundle
