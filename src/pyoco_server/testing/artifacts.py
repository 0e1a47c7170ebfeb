"""Artifacts in memory."""

from __future__ import annotations

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import request_of_artifact
from pyoco_server.errors import RequestTooLarge
from pyoco_server.ports.pdca import MAX_ARTIFACT_BYTES, StoredArtifact


class MemoryArtifactStore:
    """ArtifactStore."""

    def __init__(self) -> None:
        self._stored: dict[str, StoredArtifact] = {}

    async def put(self, artifact_id: str, artifact: StoredArtifact) -> None:
        if len(artifact.data) > MAX_ARTIFACT_BYTES:
            raise RequestTooLarge(f"an artifact may have at most {MAX_ARTIFACT_BYTES} bytes")
        self._stored[artifact_id] = artifact

    async def get(self, artifact_id: str) -> StoredArtifact | None:
        return self._stored.get(artifact_id)

    async def delete_of(self, request_id: RunId) -> None:
        for artifact_id in [known for known in self._stored if request_of_artifact(known) == request_id]:
            del self._stored[artifact_id]
