"""`/docs`: the OpenAPI document in Swagger UI, with all assets served by the gateway itself."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.protocol.query_names import accepts_any_query

router = APIRouter(include_in_schema=False)

ASSETS = "/docs/assets"
_INLINE_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


@router.get("/docs")
@accepts_any_query
@requires_scope()
async def docs(request: Request) -> HTMLResponse:
    """Every path, for people."""
    app, root = request.app, request.scope.get("root_path", "")
    page = get_swagger_ui_html(
        openapi_url=f"{root}{app.openapi_url}",
        title=app.title,
        swagger_js_url=f"{root}{ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{root}{ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{root}{ASSETS}/favicon.png",
    )
    page.headers["Content-Security-Policy"] = _policy(bytes(page.body))
    return page


def _policy(page: bytes) -> str:
    """Allows the assets and the inline scripts of this very page."""
    hashes = [f"'sha256-{b64encode(sha256(script).digest()).decode()}'" for script in _INLINE_SCRIPT.findall(page)]
    return (
        f"default-src 'none'; script-src 'self' {' '.join(hashes)}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'"
    )


_files = StaticFiles(directory=str(files("fastapi_offline") / "static"))
router.routes.append(Mount(ASSETS, requires_scope()(_files), name="docs_assets"))
