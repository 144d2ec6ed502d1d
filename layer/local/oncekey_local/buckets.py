"""Creates the description's buckets in the local store."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from oncekey_local.authorization import authorization
from oncekey_local.environment import bucket_name
from oncekey_local.processes import StartFailed

if TYPE_CHECKING:
    import aiohttp

    from oncekey_local.description import Service


async def create_buckets(session: aiohttp.ClientSession, store_url: str, service: Service) -> None:
    """Returns when every bucket exists, and says of itself when its objects expire.

    Raises `StartFailed` if the store refuses one.
    """
    for bucket in service.buckets:
        url = f"{store_url}/{bucket_name(service, bucket.name)}"
        await _put(session, url, "")
        if bucket.expire_after_days is not None:
            await _put(
                session,
                f"{url}?lifecycle",
                _lifecycle(bucket.expiring_prefix, bucket.expire_after_days),
            )


def _lifecycle(prefix: str, expire_after_days: int) -> str:
    return (
        "<LifecycleConfiguration><Rule><ID>expire</ID>"
        f"<Filter><Prefix>{escape(prefix)}</Prefix></Filter>"
        f"<Status>Enabled</Status><Expiration><Days>{expire_after_days}</Days></Expiration>"
        "</Rule></LifecycleConfiguration>"
    )


async def _put(session: aiohttp.ClientSession, url: str, body: str) -> None:
    headers = {"Authorization": authorization("s3")}
    async with session.put(url, data=body, headers=headers) as response:
        if response.status != 200:
            raise StartFailed(f"the store refused PUT {url}: {await response.text()}")
