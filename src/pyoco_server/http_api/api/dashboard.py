"""`GET /` and `GET /static/{path}`: the dashboard, a page and its scripts, which the build puts into the package.

Public, because these files contain no data: the page asks the API, with the credentials of its user. They are read
once, so that a request opens no file, and no path leads out of the folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, Response

from pyoco_server import __version__
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import DashboardMissing, RouteNotFound
from pyoco_server.http_api.middleware.authentication import public_route
from pyoco_server.http_api.protocol.conditional import is_known, strong_tag
from pyoco_server.http_api.protocol.query_names import accepts_any_query
from pyoco_server.http_api.responses.negotiation import preferred_encoding, preferred_language, wants_html
from pyoco_server.http_api.responses.problems import response_for
from pyoco_server.japanese import is_japanese_locale

router = APIRouter(include_in_schema=False)

FOLDER = Path(__file__).parents[1] / "dashboard_files"
# Workers and imported scripts follow the policy of their own answer.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; worker-src 'self'; "
    "img-src 'self' data:; font-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
SAFE = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
CHECK_AGAIN, FOR_EVER = "no-cache", "public, max-age=31536000, immutable"
# Made by the build beside each file that becomes smaller, the smallest first.
ENCODINGS = {"br": ".br", "gzip": ".gz"}
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "application/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
# The name of a file that changes its name with its content: index-B3x_9aQz.js.
_HASHED = re.compile(r".+-[A-Za-z0-9_-]{8}\.[a-z0-9]+")
_HTML_TAG = re.compile(r"<html\b[^>]*>")
_BASE_TAG = re.compile(r"<base\b[^>]*>")


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file, and its content by Content-Encoding; "" is the content itself."""

    media_type: str
    caching: str
    contents: Mapping[str, bytes]
    digest: str

    def answer(self, request: Request) -> Response:
        encoding = preferred_encoding(request.headers.get("accept-encoding", ""), self.contents)
        tag = strong_tag(self.digest, encoding)
        headers = {**SAFE, "Cache-Control": self.caching, "ETag": tag, "Vary": "Accept-Encoding"}
        if is_known(request.headers.get("if-none-match"), tag):
            return Response(status_code=304, headers=headers)
        if encoding:
            headers["Content-Encoding"] = encoding
        return Response(self.contents[encoding], headers=headers, media_type=self.media_type)


@dataclass(frozen=True, slots=True)
class Dashboard:
    """The page and its files, as they are served with one configuration; without a page it was not built."""

    page: str | None
    attributes: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, StaticFile] = field(default_factory=dict)

    @classmethod
    def of(cls, config: NatsBackendConfig, folder: Path) -> Dashboard:
        index = folder / "index.html"
        page = index.read_text("utf-8") if index.is_file() else None
        return cls(page, _attributes(config), dict(_static_files(folder / "static")))

    def html(self, root_path: str) -> str:
        """The page below this path.

        Without one the base is relative: a proxy may strip a prefix that the gateway does not know.
        """
        assert self.page is not None  # noqa: S101 - the route answers 404 without one
        attributes = "".join(f' {name}="{escape(value)}"' for name, value in self.attributes.items())
        base = escape(f"{root_path.rstrip('/')}/" if root_path else "./")
        page = _HTML_TAG.sub(lambda _: f"<html{attributes}>", self.page, count=1)
        return _BASE_TAG.sub(lambda _: f'<base href="{base}" />', page, count=1)


def install(app: FastAPI, config: NatsBackendConfig, folder: Path = FOLDER) -> None:
    """Read the files."""
    app.state.dashboard = Dashboard.of(config, folder)


@router.api_route("/", methods=["GET", "HEAD"])
@accepts_any_query
@public_route
async def page(request: Request) -> Response:
    """The page."""
    dashboard: Dashboard = request.app.state.dashboard
    if dashboard.page is None:
        return _missing(request)
    html = dashboard.html(request.scope.get("root_path", ""))
    tag = strong_tag(html)
    headers = {**SAFE, "Cache-Control": CHECK_AGAIN, "ETag": tag}
    if is_known(request.headers.get("if-none-match"), tag):
        return Response(status_code=304, headers=headers)
    return HTMLResponse(html, headers=headers)


@router.api_route("/static/{path:path}", methods=["GET", "HEAD"])
@accepts_any_query
@public_route
async def static_file(path: str, request: Request) -> Response:
    """A script, a style sheet or an image of the page."""
    return _file(path, request)


@router.api_route("/favicon.ico", methods=["GET", "HEAD"])
@accepts_any_query
@public_route
async def icon(request: Request) -> Response:
    """What browsers ask for beside an answer of the API, which cannot name an icon."""
    return _file("favicon.svg", request)


def _file(path: str, request: Request) -> Response:
    dashboard: Dashboard = request.app.state.dashboard
    found = dashboard.files.get(path)
    if found is None:
        raise RouteNotFound
    return found.answer(request)


def _missing(request: Request) -> Response:
    error = DashboardMissing()
    answer = response_for(request, error)
    answer.headers["Vary"] = "Accept, Accept-Language"
    if not wants_html(request.headers.get("accept", "")):
        return answer
    language = preferred_language(request)
    message, hint = (escape(text) for text in error.texts(language))
    html = f'<!doctype html><html lang="{language}"><meta charset="utf-8"><title>pyoco</title><p>{message}</p><p>{hint}'
    headers = {"Vary": answer.headers["Vary"], "Cache-Control": "no-store"}
    return HTMLResponse(f"{html}</p></html>", status_code=answer.status_code, headers=headers)


def _attributes(config: NatsBackendConfig) -> dict[str, str]:
    """What the page has to know before its first request."""
    language = config.dashboard_lang
    shown = ("ja" if is_japanese_locale(os.environ) else "en") if language == "auto" else language
    return {
        "lang": shown,
        "data-language": language,
        "data-auth": ",".join(sorted(config.auth_ways)) or "none",
        "data-api-key-header": config.http_api_key_header,
        "data-actions": "1" if config.dashboard_actions else "0",
        "data-version": __version__,
    }


def _static_files(folder: Path) -> Iterator[tuple[str, StaticFile]]:
    for path in sorted(folder.rglob("*")):
        if path.suffix not in MEDIA_TYPES or not path.is_file():
            continue
        variants = {name: path.with_name(path.name + suffix) for name, suffix in ENCODINGS.items()}
        content = path.read_bytes()
        contents = {name: variant.read_bytes() for name, variant in variants.items() if variant.is_file()}
        yield (
            path.relative_to(folder).as_posix(),
            StaticFile(
                media_type=MEDIA_TYPES[path.suffix],
                caching=FOR_EVER if _HASHED.fullmatch(path.name) else CHECK_AGAIN,
                contents={**contents, "": content},
                digest=sha256(content).hexdigest(),
            ),
        )
