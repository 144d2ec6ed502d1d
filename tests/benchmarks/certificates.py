"""A certificate for the loopback server, beside the usual authorities that a client has to read."""

from __future__ import annotations

import datetime as dt
import ipaddress
from typing import TYPE_CHECKING

from botocore.httpsession import where
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Files in `folder`: the certificate of 127.0.0.1 with its key, and a bundle that trusts it.

    The bundle has all the authorities of boto3's own, because reading them takes time.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the benchmarks' loopback")])
    now = dt.datetime.now(tz=dt.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    chain, bundle = folder / "chain.pem", folder / "bundle.pem"
    chain.write_bytes(private + certificate)
    with open(where(), "rb") as authorities:  # noqa: PTH123 -- a path of botocore's, as text
        bundle.write_bytes(authorities.read() + b"\n" + certificate)
    return chain, bundle
