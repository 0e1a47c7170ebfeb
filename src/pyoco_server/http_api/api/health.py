"""`GET /health`: whether the gateway is alive and reaches its broker; works without the broker."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from pyoco_server import __version__
from pyoco_server.http_api.dependencies import StoresDep
from pyoco_server.http_api.middleware.authentication import public_route
from pyoco_server.http_api.protocol.query_names import accepts_any_query

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """`status` is about this process; `nats` says whether runs can be accepted right now."""

    status: Literal["ok"] = "ok"
    nats: Literal["connected", "away"]
    version: str = __version__


@router.get("/health")
@accepts_any_query
@public_route
async def health(stores: StoresDep) -> Health:
    """The gateway is alive; `nats` is the state of its broker connection."""
    return Health(nats="connected" if stores.broker.connected else "away")
