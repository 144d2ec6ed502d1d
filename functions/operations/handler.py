"""The Lambda handler. It tells a tenant the status of its own requests."""

from __future__ import annotations

from functions.shared.http import TENANT
from oncekey.queued import OperationStatus

handler = OperationStatus(tenant=TENANT)
