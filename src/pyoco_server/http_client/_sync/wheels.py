# Generated from _async/wheels.py by scripts/unasync. Do not edit.
"""Methods for wheels: upload, download, list, delete."""

from __future__ import annotations

from pyoco_server.http_client._sync.base import Methods
from pyoco_server.http_client.files import FileTarget, Progress, WheelData, open_wheel, replacing, with_progress
from pyoco_server.http_client.models.runs import WheelArtifact, WheelDeleted, WheelHistoryEvent, WheelReceived
from pyoco_server.http_client.requests import Request, Strings, change, get, id_path, read_array, to_strings


class WheelMethods(Methods):
    def list_wheels(self) -> list[WheelArtifact]:
        """The registered wheels, by name."""
        return self._transport.send(get("/wheels", read=read_array))

    def list_wheel_history(
        self, limit: int | None = None, wheel_name: str | None = None, action: str | None = None
    ) -> list[WheelHistoryEvent]:
        """Uploads and deletions, newest first; `action` is `upload` or `delete`."""
        return self._transport.send(
            get("/wheels/history", read=read_array, limit=limit, wheel_name=wheel_name, action=action)
        )

    def upload_wheel(
        self,
        filename: str,
        data: WheelData,
        replace: bool = True,
        tags: Strings = None,
        *,
        progress: Progress | None = None,
        idempotency_key: str | None = None,
    ) -> WheelArtifact:
        """Register a wheel: bytes, a path, or a file, which is read piece by piece.

        WheelVersionConflict unless it is newer than every registered version of its package, whatever `replace` says.
        """
        with open_wheel(data) as file:
            fields = {"replace": "true" if replace else "false", "tags": ",".join(to_strings(tags))}
            files = {"wheel": (filename, with_progress(file, progress), "application/octet-stream")}
            request: Request[WheelArtifact] = change("POST", "/wheels", idempotency_key, fields=fields, files=files)
            return self._transfers.upload_wheel(request, filename, file)

    def download_wheel(self, wheel_name: str, to: FileTarget, *, progress: Progress | None = None) -> WheelReceived:
        """Write a wheel to a path, into a folder, or into an open file. A path is written completely or not at all."""
        path = _wheel_path(wheel_name)
        with replacing(to, wheel_name) as file:
            size = self._transfers.download_wheel(path, wheel_name, file, progress)
        return {"name": wheel_name, "size_bytes": size}

    def delete_wheel(self, wheel_name: str, *, idempotency_key: str | None = None) -> WheelDeleted:
        """Remove a wheel; workers that installed it remove it at their next sync."""
        request: Request[WheelDeleted] = change("DELETE", _wheel_path(wheel_name), idempotency_key)
        return self._transfers.delete_wheel(request, wheel_name)


def _wheel_path(name: str) -> str:
    return id_path("/wheels", "wheel_name", name)
