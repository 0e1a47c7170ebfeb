"""The background jobs of the audit trail."""

from __future__ import annotations

from collections.abc import Sequence

from pyoco_server.services.audit.reader import AuditReader
from pyoco_server.services.loops import Periodic

RECORD_EVERY_SEC = 1.0
FORGET_EVERY_SEC = 600.0


def audit_jobs(audit: AuditReader) -> Sequence[Periodic]:
    """The table of jobs."""
    return (
        Periodic("audit", RECORD_EVERY_SEC, audit.catch_up),
        Periodic("audit retention", FORGET_EVERY_SEC, audit.forget),
    )
