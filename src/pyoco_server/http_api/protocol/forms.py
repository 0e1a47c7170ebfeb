"""multipart/form-data bodies: parts of known names, files spooled to disk by Starlette."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import InvalidRequest, UploadNotKept

FORM = "multipart/form-data"
# Boundaries and headers of a form, beside the contents of its parts.
MAX_FRAME_BYTES = 64 * 1024

Parts = dict[str, str | UploadFile]


def form_limits(config: NatsBackendConfig) -> Mapping[tuple[str, str], int]:
    """The largest bodies of the routes with forms, by method and path."""
    largest_workflow = min(config.workflow_yaml_max_bytes + MAX_FRAME_BYTES, config.http_max_body_bytes)
    return {("POST", "/wheels"): config.wheel_max_bytes + MAX_FRAME_BYTES, ("POST", "/runs/yaml"): largest_workflow}


@asynccontextmanager
async def read_form(
    request: Request, known: Collection[str], *, max_text_bytes: int, example: str
) -> AsyncIterator[Parts]:
    """The parts of a form, files open until the end of the block; `InvalidRequest` for unknown or repeated parts."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise InvalidRequest(f"the content type is not {FORM}; with curl: {example}")
    try:
        form = await request.form(max_files=1, max_fields=len(known), max_part_size=max_text_bytes)
    except HTTPException as error:
        raise InvalidRequest(f"the body is not {FORM}: {error.detail}") from error
    except OSError as error:
        raise UploadNotKept(f"the upload cannot be stored on disk (see TMPDIR): {error.strerror}") from error
    try:
        parts: Parts = {}
        for name, part in form.multi_items():
            if name not in known:
                raise InvalidRequest(f"unknown part {name[:60]!r}; known are {', '.join(known)}")
            if name in parts:
                raise InvalidRequest(f"the part {name!r} is there twice")
            parts[name] = part
        yield parts
    finally:
        await form.close()


def text_of(parts: Parts, name: str, default: str = "") -> str:
    """The text of a part; `InvalidRequest` for a file."""
    part = parts.get(name, default)
    if not isinstance(part, str):
        raise InvalidRequest(f"{name} must be text, not a file")
    return part
