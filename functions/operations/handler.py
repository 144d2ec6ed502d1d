"""The Lambda: tells a tenant what became of a request that it has sent."""

from __future__ import annotations

from functions.shared.http import TENANT
from oncekey.queued import OperationStatus

handler = OperationStatus(tenant=TENANT)
