"""The sources of time and of new ids."""

from __future__ import annotations

from typing import Protocol

from pyoco_server.domain.auth.api_keys import KeyId
from pyoco_server.domain.ids import CommitId, InstanceId, RunId


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> float:
        """Unix seconds."""

    def monotonic(self) -> float: ...


class Ids(Protocol):
    """The only source of new ids."""

    def run_id(self) -> RunId: ...
    def commit_id(self) -> CommitId: ...
    def instance_id(self) -> InstanceId: ...
    def key_id(self) -> KeyId: ...
    def key_secret(self) -> str:
        """256 random bits, as 43 characters of base64url."""
