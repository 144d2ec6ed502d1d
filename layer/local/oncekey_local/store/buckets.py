"""Creates the description's buckets in the local store."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from oncekey_local.functions.environment import bucket_name
from oncekey_local.processes import StartFailed
from oncekey_local.store.authorization import authorization

if TYPE_CHECKING:
    from collections.abc import Iterable

    import aiohttp

    from oncekey_local.description import Expiration, Service


async def create_buckets(session: aiohttp.ClientSession, store_url: str, service: Service) -> None:
    """Returns when every bucket exists and has its rules of expiration.

    Raises `StartFailed` if the store refuses one.
    """
    for bucket in service.buckets:
        url = f"{store_url}/{bucket_name(service, bucket.name)}"
        await _put(session, url, "")
        if bucket.expirations:
            await _put(session, f"{url}?lifecycle", _lifecycle(bucket.expirations))


def _lifecycle(expirations: Iterable[Expiration]) -> str:
    rules = (
        f"<Rule><Filter><Prefix>{escape(one.prefix)}</Prefix></Filter><Status>Enabled</Status>"
        f"<Expiration><Days>{one.after_days}</Days></Expiration></Rule>"
        for one in expirations
    )
    return f"<LifecycleConfiguration>{''.join(rules)}</LifecycleConfiguration>"


async def _put(session: aiohttp.ClientSession, url: str, body: str) -> None:
    headers = {"Authorization": authorization("s3")}
    async with session.put(url, data=body, headers=headers) as response:
        if response.status != 200:
            raise StartFailed(f"the store refused PUT {url}: {await response.text()}")
