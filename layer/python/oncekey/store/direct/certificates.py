"""The certificates that a peer is verified against: those of botocore, or those that are named."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    # Importing TLS takes milliseconds, and an endpoint without TLS needs none of it.
    import ssl
    from collections.abc import Iterator, Mapping

# The authorities of AWS's own certificates, by their labels in the default bundle.
# https://www.amazontrust.com/repository/
_AMAZON_LABELS = (
    '# Label: "Amazon Root CA ',
    '# Label: "Starfield Services Root Certificate Authority',
)
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
NO_CERTIFICATES = "neither certifi nor botocore brings certificates"


class Certificates(NamedTuple):
    """A file or a folder of trusted certificates. `is_default`: no variable names it."""

    path: str
    is_default: bool


def trusted(environment: Mapping[str, str]) -> Certificates | None:
    """The certificates that botocore trusts: those named, else certifi's, else its own."""
    for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        if environment.get(name):
            return Certificates(environment[name], is_default=False)
    for package in ("certifi", "botocore"):
        # Neither package is loaded: that would take longer than a call.
        spec = find_spec(package)
        if spec is not None and spec.origin:
            file = os.path.join(os.path.dirname(spec.origin), "cacert.pem")  # noqa: PTH118, PTH120
            if Path(file).is_file():
                return Certificates(file, is_default=True)
    return None


class Verification:
    """Verifies a peer's certificate and its name, with TLS 1.2 or later, as botocore does.

    Reading the 120 authorities of the default bundle takes longer than the rest of a cold start. So
    only AWS's own are read at first. A peer that they do not vouch for is verified against all.
    """

    def __init__(self, certificates: Certificates) -> None:
        self._path = certificates.path
        few = "".join(_amazons(self._path)) if certificates.is_default else ""
        self._is_whole = not few
        self.context = _context(text=few) if few else _context(path=self._path)

    def widen(self, used: ssl.SSLContext, error: BaseException | None) -> bool:
        """Read all authorities, if `error` may be due to the few. Returns whether to try again.

        `used` is the context of the failed try. Another thread may have read all meanwhile.
        """
        # By its name, because the module of TLS is loaded when it is needed.
        if type(error).__name__ != "SSLCertVerificationError":
            return False
        if self._is_whole:
            return self.context is not used
        self.context = _context(path=self._path)
        self._is_whole = True
        return True


def _amazons(path: str) -> Iterator[str]:
    text = Path(path).read_text("utf-8", "replace")
    for label in _AMAZON_LABELS:
        at = text.find(label)
        while at >= 0:
            begin = text.find(_BEGIN, at)
            end = text.find(_END, begin) + len(_END)
            yield text[begin:end] + "\n"
            at = text.find(label, end)


def _context(path: str | None = None, text: str | None = None) -> ssl.SSLContext:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    is_folder = path is not None and Path(path).is_dir()
    context.load_verify_locations(
        cafile=None if is_folder else path, capath=path if is_folder else None, cadata=text
    )
    return context
