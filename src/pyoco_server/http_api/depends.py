"""What routes ask for: the gateway's services and the caller. Nothing here does any work."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from pyoco_server.application.gateway import Gateway
from pyoco_server.application.stores import Origin
from pyoco_server.execution.events import Actor

ANYONE = Actor(kind="user")


def gateway_of(request: Request) -> Gateway:
    gateway: Gateway = request.app.state.gateway
    return gateway


def origin_of(request: Request) -> Origin:
    """Who asks; the request id ties events, logs and answer together."""
    return Origin(actor=ANYONE, correlation_id=request.scope.get("request_id"))


GatewayDep = Annotated[Gateway, Depends(gateway_of)]
OriginDep = Annotated[Origin, Depends(origin_of)]
