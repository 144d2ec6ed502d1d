"""The Lambda that runs each minute, and settles what nobody else does."""

from __future__ import annotations

from functions.refunds.resolver import what_became_of
from functions.reports.handler import create_report
from oncekey.reconciler import Reconciler

handler = Reconciler(resolvers=(what_became_of,), handlers=(create_report,))
