"""The document as the local runtime serves it: made anew for each request, in a process of its own.

The runtime itself never imports a handler, so a change of one shows at the next request.
"""

from __future__ import annotations

import asyncio
import sys
from http import HTTPStatus

from oncekey_local.front.http_api_response import HttpResponse, gateway_response
from oncekey_local.log import log


async def served_document(reference: str) -> HttpResponse:
    """The answer to `GET /openapi.json` for the service at `reference`; 500 if it has none."""
    command = (sys.executable, "-m", "oncekey_local.cli", "openapi", "--service", reference)
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        document, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        log(said.decode("utf-8", "replace"))
        text = "there is no document: the log says why"
        return gateway_response(HTTPStatus.INTERNAL_SERVER_ERROR, text)
    headers = (("content-type", "application/json"),)
    return HttpResponse(status=HTTPStatus.OK, headers=headers, body=document)
