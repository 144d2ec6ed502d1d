"""The identity of a record: a hash of (tenant, principal or empty, operation, key)."""

from __future__ import annotations

import base64
import hashlib

from oncekey.base64url import base64url
from oncekey.value import Value, field

_VERSION = "v1#"
# To copy it takes less than to make another one.
_EMPTY = hashlib.sha256()


class Identity(Value, kw_only=True):
    """Whose key it is, and for what. `principal` is empty unless the operation is scoped by it."""

    tenant: str
    operation: str
    key: str = field(repr=False)
    principal: str = field(default="", repr=False)
    pk: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Compute the record's partition key.

        It is `v1#` and the unpadded base64url of SHA-256 over the parts. Each part is preceded by
        its length in UTF-8 bytes, so that no delimiter can be forged. The hash spreads keys evenly
        over DynamoDB's partitions. Tables in use hold this value, so it must never change: golden
        vectors in the tests hold it.
        """
        pk = _VERSION + digest(self.tenant, self.principal, self.operation, self.key)
        object.__setattr__(self, "pk", pk)

    def due_shard(self, shards: int) -> str:
        """The partition of the `due` index that this record belongs to, out of `shards`.

        It is computed from the hash, so records spread evenly. Without shards there is no index,
        and the name is empty.
        """
        if not shards:
            return ""
        # Eight digits of base64 are six bytes, of which the first four count.
        start = base64.urlsafe_b64decode(self.pk[len(_VERSION) : len(_VERSION) + 8])
        return str(int.from_bytes(start[:4], "big") % shards)


def digest(*parts: str | bytes) -> str:
    """The unpadded base64url of SHA-256 over `parts`, each as `<length in bytes>:<bytes>`.

    Text is encoded as UTF-8. Lone surrogates, which some JSON parsers accept, are hashed unchanged,
    neither refused nor replaced.
    """
    hasher = _EMPTY.copy()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hasher.update(b"%d:" % len(raw))
        hasher.update(raw)
    return base64url(hasher.digest())
