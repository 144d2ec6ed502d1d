"""The certificates that the direct transport trusts, and when it reads them."""

from __future__ import annotations

import importlib.util
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

import botocore
import certifi
import pytest

from oncekey.store.direct.certificates import Certificates, Verification, trusted

if TYPE_CHECKING:
    from collections.abc import Mapping

BUNDLES = {"certifi's": Path(certifi.where()), "botocore's": Path(botocore.__file__).parent}


def bundle(name: str) -> Certificates:
    """The default bundle of this package."""
    path = BUNDLES[name]
    return Certificates(str(path / "cacert.pem" if path.is_dir() else path), is_default=True)


def names(context: ssl.SSLContext) -> set[str]:
    """The common names of the authorities."""
    found: list[dict[str, Any]] = context.get_ca_certs()
    subjects = [dict(part[0] for part in each["subject"]) for each in found]
    return {subject["commonName"] for subject in subjects if "commonName" in subject}


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, (certifi.where(), True)),
        ({"AWS_CA_BUNDLE": "one.pem", "REQUESTS_CA_BUNDLE": "two.pem"}, ("one.pem", False)),
        ({"REQUESTS_CA_BUNDLE": "two.pem"}, ("two.pem", False)),
    ],
)
def test_the_certificates_are_those_of_botocore(
    environment: Mapping[str, str], found: tuple[str, bool]
) -> None:
    """Without a variable, certifi's certificates are trusted, as by botocore; else the named ones.

    Red when the system's are used, or a named bundle is passed over.
    """
    assert trusted(environment) == found


def test_without_certifi_botocores_own_certificates_are_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lambda's runtime has botocore and no certifi."""
    monkeypatch.setattr(
        "oncekey.store.direct.certificates.find_spec",
        lambda name: None if name == "certifi" else importlib.util.find_spec(name),
    )

    assert trusted({}) == bundle("botocore's")


@pytest.mark.parametrize("name", BUNDLES)
def test_at_first_only_the_authorities_of_aws_are_read(name: str) -> None:
    """Of the default bundle, the five authorities of AWS's certificates are read; the others follow
    when a certificate is of none of them, once, and for no other failure.

    Red when each cold start reads all of them, or another failure of TLS makes a second try.
    """
    verification = Verification(bundle(name))
    few = names(verification.context)

    assert few == {
        *(f"Amazon Root CA {number}" for number in (1, 2, 3, 4)),
        "Starfield Services Root Certificate Authority - G2",
    }
    used, unknown = verification.context, ssl.SSLCertVerificationError("of another authority")
    assert not verification.widen(used, ssl.SSLError("another failure"))
    assert verification.widen(used, unknown)
    whole = verification.context
    assert few < names(whole)
    assert len(whole.get_ca_certs()) > 100
    assert not verification.widen(whole, unknown)
    # A thread that failed with the few is not too late.
    assert verification.widen(used, unknown)
    assert verification.context is whole


def test_a_peer_is_always_verified() -> None:
    """Certificate and name are verified before and after, with TLS 1.2 at least.

    Red when a context is made that trusts anybody.
    """
    verification = Verification(bundle("certifi's"))
    for _ in range(2):
        context = verification.context
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
        verification.widen(context, ssl.SSLCertVerificationError())


def test_a_named_bundle_is_used_as_it_is(tmp_path: Path) -> None:
    """A bundle that somebody names is read whole, be it a file or a folder."""
    text = Path(certifi.where()).read_text("utf-8")
    end = "-----END CERTIFICATE-----"
    file = tmp_path / "named.pem"
    file.write_text(text[: text.index(end)] + end, "utf-8")

    of_file = Verification(Certificates(str(file), is_default=False))
    of_folder = Verification(Certificates(str(tmp_path), is_default=False))

    assert len(of_file.context.get_ca_certs()) == 1
    assert of_folder.context.get_ca_certs() == []
    for each in (of_file, of_folder):
        assert not each.widen(each.context, ssl.SSLCertVerificationError())


def test_a_bundle_without_labels_is_read_whole(tmp_path: Path) -> None:
    """A default bundle of another form leaves nobody without certificates."""
    text = Path(certifi.where()).read_text("utf-8").replace("# Label", "# Name")
    file = tmp_path / "cacert.pem"
    file.write_text(text, "utf-8")

    verification = Verification(Certificates(str(file), is_default=True))

    assert len(verification.context.get_ca_certs()) > 100
