# Generated from _async/wheels.py by scripts/unasync. Do not edit.
"""Methods for wheels: upload, download, list, delete."""

from __future__ import annotations

from pyoco_server.http_client._sync.base import Methods
from pyoco_server.http_client.files import FileTarget, Progress, WheelData, open_wheel, replacing, with_progress
from pyoco_server.http_client.models.runs import WheelArtifact, WheelDeleted, WheelHistoryEvent, WheelReceived
from pyoco_server.http_client.requests import (
    BYTES_OF_WHEEL,
    Request,
    Strings,
    change,
    get,
    id_path,
    read_array,
    read_text,
    to_query,
    to_strings,
)


class WheelMethods(Methods):
    def list_wheels(self) -> list[WheelArtifact]:
        """The wheels of the caller's tenant and the shared ones, by name; all for administrators."""
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
        shared: bool = False,
        progress: Progress | None = None,
        idempotency_key: str | None = None,
    ) -> WheelArtifact:
        """Register a wheel: bytes, a path, or a file, which is read piece by piece.

        It is for the runs of the caller's tenant; `shared` is for those of all tenants and needs the scope admin.
        WheelVersionConflict unless it is newer than every version of its package and owner, whatever `replace` says.
        """
        with open_wheel(data) as file:
            fields = {"replace": "true" if replace else "false", "tags": ",".join(to_strings(tags))}
            if shared:
                fields["shared"] = "true"  # older gateways refuse the field
            files = {"wheel": (filename, with_progress(file, progress), "application/octet-stream")}
            request: Request[WheelArtifact] = change("POST", "/wheels", idempotency_key, fields=fields, files=files)
            return self._transfers.upload_wheel(request, filename, file)

    def download_wheel(
        self,
        wheel_name: str,
        to: FileTarget,
        *,
        shared: bool = False,
        tenant_id: str | None = None,
        progress: Progress | None = None,
    ) -> WheelReceived:
        """Write a wheel to a path, into a folder, or into an open file. A path is written completely or not at all.

        It is that of the caller's tenant, else the shared one; `tenant_id` names another tenant (for administrators).
        """
        request: Request[str] = get(
            _wheel_path(wheel_name),
            read=read_text,
            headers=BYTES_OF_WHEEL,
            shared=shared or None,
            tenant_id=tenant_id,
        )
        with replacing(to, wheel_name) as file:
            size = self._transfers.download_wheel(request, wheel_name, file, progress)
        return {"name": wheel_name, "size_bytes": size}

    def delete_wheel(
        self,
        wheel_name: str,
        *,
        shared: bool = False,
        tenant_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> WheelDeleted:
        """Remove a wheel of the caller's tenant; workers that installed it remove it at their next sync.

        Administrators remove a shared one, or one of another tenant.
        """
        query = to_query(shared=shared or None, tenant_id=tenant_id)
        request: Request[WheelDeleted] = change("DELETE", _wheel_path(wheel_name), idempotency_key, query=query)
        return self._transfers.delete_wheel(request, wheel_name)


def _wheel_path(name: str) -> str:
    return id_path("/wheels", "wheel_name", name)
