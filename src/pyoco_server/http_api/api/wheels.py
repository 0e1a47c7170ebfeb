"""`/wheels`: the packages that workers install, of a tenant or shared by all."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.datastructures import UploadFile

from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.idempotency.keys import FormPart
from pyoco_server.domain.wheels.history import to_plain
from pyoco_server.domain.wheels.wheel import EXAMPLE, Wheel, parse_tags, parse_wheel_name
from pyoco_server.errors import InvalidRequest, RequestTooLarge
from pyoco_server.http_api.dependencies import CallerDep, ConfigDep, StoresDep, WheelsDep, given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.openapi.bodies import request_body
from pyoco_server.http_api.protocol.fields import Open, Strict
from pyoco_server.http_api.protocol.forms import FORM, read_form, text_of
from pyoco_server.http_api.protocol.idempotency import IdempotentRequest, of_form, of_value
from pyoco_server.http_api.protocol.request_parsing import caller_of
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.problems import answers, failures
from pyoco_server.http_api.responses.streams import Download
from pyoco_server.services.wheels import Trail, Upload, upload_turn

router = APIRouter(prefix="/wheels", tags=["wheels"])

ADMIN = frozenset({Scope.ADMIN})
MAX_TAGS_BYTES = 8 * 1024
MAX_SOURCE_CHARS = 200
CURL = f"-F wheel=@{EXAMPLE} -F tags=gpu,batch"
FIELDS = ("wheel", "replace", "tags", "shared")
YES, NO = ("true", "1"), ("", "false", "0")


class WheelArtifact(Open):
    """A registered wheel. Without tags it is for every worker."""

    name: str = Field(examples=[EXAMPLE])
    size_bytes: int
    bucket: str = Field(description="The object store that holds it.", examples=["pyoco_wheels"])
    nuid: str = Field(description="One upload: new with each.")
    modified: float = Field(description="Unix seconds.", examples=[1767225600.0])
    sha256_hex: str | None = Field(description="Workers compare it before they install.")
    tags: list[str] = Field(examples=[["gpu"]])
    tenant_id: str | None = Field(
        default=None, description="Whose runs use it; null: shared by all tenants.", examples=["team-a"]
    )


class WheelHistoryEvent(Open):
    """A change of a wheel, its source and its actor. More fields may be added at any time."""

    event_id: str
    occurred_at: float = Field(description="Unix seconds.", examples=[1767225600.0])
    action: Literal["upload", "delete"]
    wheel_name: str = Field(examples=[EXAMPLE])
    tags: list[str]
    tenant_id: str | None = Field(default=None, description="Whose wheel it is; null: shared by all tenants.")
    source: dict[str, Any] = Field(examples=[{"client": "10.0.0.7", "user_agent": "curl/8.5", "request_id": "r1"}])
    actor: dict[str, Any] = Field(
        examples=[{"kind": "api_key", "tenant_id": "team-a", "api_key_id": "0011223344556677"}]
    )


class WheelUploadRequest(Strict):
    """A wheel as a file whose name says package and version; both must be those of its METADATA."""

    wheel: str = Field(
        description="The wheel, at most PYOCO_WHEEL_MAX_BYTES; its version newer than every one of its owner.",
        json_schema_extra={"format": "binary"},
    )
    replace: bool = Field(default=True, description="Accepted for older clients; the rule for versions comes first.")
    tags: str = Field(
        default="", description="Which workers it is for, joined by commas; none: for all.", examples=["gpu,batch"]
    )
    shared: bool = Field(
        default=False, description="For runs of all tenants, not only of the caller's. Needs the scope admin."
    )


class WheelDeleted(BaseModel):
    """The wheel is deleted."""

    name: str
    deleted: Literal[True]


class HistoryQuery(Strict):
    limit: int = Field(default=100, ge=1, le=500)
    wheel_name: str | None = Field(default=None, max_length=256, pattern=r"^.+\.whl$", examples=[EXAMPLE])
    action: Literal["upload", "delete"] | None = None


class OwnerQuery(Strict):
    """Whose wheel is meant; by default the caller's tenant's."""

    shared: bool = Field(default=False, description="The wheel that all tenants share.")
    tenant_id: str | None = Field(default=None, max_length=64, description="That of this tenant. For administrators.")

    def of(self, caller: Caller) -> str | None:
        """The owner; None for shared wheels, also of a caller without tenants."""
        if self.shared and self.tenant_id is not None:
            raise InvalidRequest("shared and tenant_id exclude each other")
        if self.tenant_id not in (None, caller.tenant_id):
            caller.require(ADMIN)
            return self.tenant_id
        return None if self.shared else caller.tenant_id


NamePath = Annotated[str, Path(description="The file name of a wheel.", examples=[EXAMPLE])]
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The bytes of the wheel. Its SHA-256 is in ETag (hex) and Repr-Digest (base64).",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        "headers": {
            "ETag": {"schema": {"type": "string"}},
            "Repr-Digest": {"schema": {"type": "string"}},
            "Content-Disposition": {"schema": {"type": "string"}},
        },
    },
    **failures(404, 422, 500, 503),
}


@router.get("", responses=answers(list[WheelArtifact], 503))
@requires_scope(Scope.WHEELS_READ)
async def list_wheels(stores: StoresDep, caller: CallerDep) -> list[WheelArtifact]:
    """The registered wheels of the caller's tenant and the shared ones, by name; all for administrators."""
    return [_wheel_out(wheel) for wheel in await stores.wheels.all() if wheel.is_visible_to(caller.tenant_filter)]


@router.get("/history", responses=answers(list[WheelHistoryEvent], 422, 503), dependencies=[given_once(InvalidRequest)])
@requires_scope(Scope.WHEELS_READ)
async def list_wheel_history(
    stores: StoresDep, caller: CallerDep, query: Annotated[HistoryQuery, Query()]
) -> list[WheelHistoryEvent]:
    """The changes of wheels of the last PYOCO_WHEEL_HISTORY_TTL_SEC, the newest first."""
    found = await stores.wheel_history.recent(
        query.limit, wheel_name=query.wheel_name, action=query.action, tenant_filter=caller.tenant_filter
    )
    return [WheelHistoryEvent.model_validate(to_plain(event)) for event in found]


@router.post(
    "", responses=answers(WheelArtifact, 409, 413, 422, 503), openapi_extra=request_body(WheelUploadRequest, FORM)
)
@requires_scope(Scope.WHEELS_WRITE)
async def upload_wheel(request: Request, wheels: WheelsDep, config: ConfigDep) -> Response:
    """Register a wheel for the caller's tenant. Its version must be newer than the tenant's other ones (else 409)."""
    async with (
        upload_turn(wheels.uploads),
        read_form(request, FIELDS, max_text_bytes=MAX_TAGS_BYTES, example=CURL) as form,
    ):
        file = form.get("wheel")
        if not isinstance(file, UploadFile):
            raise InvalidRequest(f"the part 'wheel' is missing: a wheel as a file; with curl: {CURL}")
        name, size = parse_wheel_name(file.filename or ""), file.size or 0
        if size > config.wheel_max_bytes:
            raise RequestTooLarge(f"the wheel has more than {config.wheel_max_bytes} bytes (PYOCO_WHEEL_MAX_BYTES)")
        # Accepted without effect: a file of the same name has the same version, which is rejected.
        if text_of(form, "replace", "true").lower() not in YES + NO:
            raise InvalidRequest("replace must be true or false")
        if (shared := text_of(form, "shared").lower()) not in YES + NO:
            raise InvalidRequest("shared must be true or false")
        caller = caller_of(request)
        if shared in YES:
            caller.require(ADMIN)
        tags = parse_tags(text_of(form, "tags"))
        spooled: Any = file.file
        sha256 = (await asyncio.to_thread(hashlib.file_digest, spooled, "sha256")).digest()
        owner = None if shared in YES else caller.tenant_id
        upload = Upload(name=name, file=file.file, size=size, tags=tags, sha256_hex=sha256.hex(), tenant_id=owner)
        texts = (FormPart.of(part, value.encode()) for part, value in form.items() if isinstance(value, str))
        digest = of_form([FormPart(name="wheel", file_name=name.file_name, sha256=sha256), *texts])
        async with IdempotentRequest(request, digest) as once:
            if turn := once.attempt:
                wheel = await wheels.upload(upload, _trail(request), turn.context)
                once.response = json_response(_wheel_out(wheel).model_dump())
        return once.answer


@router.get("/{wheel_name}", response_class=Response, responses=_BYTES, dependencies=[given_once(InvalidRequest)])
@requires_scope(Scope.WHEELS_READ)
async def download_wheel(
    wheel_name: NamePath, wheels: WheelsDep, caller: CallerDep, query: Annotated[OwnerQuery, Query()]
) -> Response:
    """The bytes of the tenant's wheel, else of the shared one. A connection that ends early is a failure."""
    wheel = await wheels.get(wheel_name, query.of(caller))
    return await Download.begun(wheels.stores.wheels.read(wheel), _headers(wheel))


@router.delete(
    "/{wheel_name}",
    responses=answers(WheelDeleted, 404, 409, 422, 503),
    dependencies=[given_once(InvalidRequest)],
)
@requires_scope(Scope.WHEELS_WRITE)
async def delete_wheel(
    wheel_name: NamePath, request: Request, wheels: WheelsDep, query: Annotated[OwnerQuery, Query()]
) -> Response:
    """Remove a wheel of the caller's tenant; a shared one (`shared`) by administrators. Its version is free again."""
    caller = caller_of(request)
    owner = query.of(caller)
    if owner is None:
        caller.require(ADMIN)
    async with IdempotentRequest(request, of_value([owner])) as once:
        if turn := once.attempt:
            await wheels.delete(wheel_name, owner, _trail(request), turn)
            once.response = json_response({"name": wheel_name, "deleted": True})
    return once.answer


def _trail(request: Request) -> Trail:
    caller = caller_of(request)
    kind = "api_key" if caller.api_key_id else "token" if caller.name else "anonymous"
    subject = None if caller.api_key_id else caller.name
    known = {"tenant_id": caller.tenant_id, "api_key_id": caller.api_key_id, "sub": subject}
    return Trail(
        source={
            "client": request.client.host if request.client else None,
            "user_agent": request.headers.get("user-agent", "")[:MAX_SOURCE_CHARS],
            "request_id": request.scope.get("request_id"),
        },
        actor={"kind": kind} | {name: value for name, value in known.items() if value is not None},
    )


def _headers(wheel: Wheel) -> dict[str, str]:
    # Another client of the broker may choose any name.
    name = "".join(sign if sign.isascii() and sign.isprintable() and sign not in '"\\' else "_" for sign in wheel.name)
    headers = {
        "Content-Length": str(wheel.size_bytes),
        "Content-Disposition": f'attachment; filename="{name}"',
        "X-Content-Type-Options": "nosniff",
    }
    if wheel.sha256_hex is not None:
        digest = base64.b64encode(bytes.fromhex(wheel.sha256_hex)).decode()
        headers |= {"ETag": f'"{wheel.sha256_hex}"', "Repr-Digest": f"sha-256=:{digest}:"}
    return headers


def _wheel_out(wheel: Wheel) -> WheelArtifact:
    return WheelArtifact.model_validate(wheel, from_attributes=True)
