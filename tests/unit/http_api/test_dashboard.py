"""The dashboard's page and files: what is served, how it is cached, and what the page is told."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from pathlib import Path

import httpx
import pytest

from pyoco_server import __version__
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from pyoco_server.http_api.api import dashboard

PAGE = """<!doctype html>
<html lang="en" data-language="auto">
  <head>
    <base href="/" />
    <script type="module" src="./static/index-B3x_9aQz.js"></script>
  </head>
</html>
"""
SCRIPT = b"export const page = 1;\n" * 100

Opened = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


# To make one takes as long as all of its requests here.
app_with = cache(create_app)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a build leaves."""
    static = tmp_path / "files" / "static"
    static.mkdir(parents=True)
    (tmp_path / "files" / "index.html").write_text(PAGE, "utf-8")
    (tmp_path / "files" / "sources.sha256").write_text("0", "utf-8")
    (static / "index-B3x_9aQz.js").write_bytes(SCRIPT)
    (static / "index-B3x_9aQz.js.br").write_bytes(b"smaller")
    (static / "index-B3x_9aQz.js.gz").write_bytes(gzip.compress(SCRIPT))
    (static / "notices.txt").write_text("preact 11.2.0 (MIT)\n", "utf-8")
    (static / "favicon.svg").write_text("<svg/>", "utf-8")
    return tmp_path / "files"


@pytest.fixture
def opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """A client of a gateway with this dashboard; it needs no broker."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)

    @asynccontextmanager
    async def open_client(root_path: str = "", **settings: object) -> AsyncIterator[httpx.AsyncClient]:
        config = NatsBackendConfig(**settings)  # type: ignore[arg-type]
        app = app_with(config)
        dashboard.install(app, config, folder)
        transport = httpx.ASGITransport(app=app, root_path=root_path)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            client.headers["Accept-Encoding"] = "identity"
            yield client

    return open_client


async def test_the_page_may_run_only_what_the_gateway_serves(opened: Opened) -> None:
    async with opened() as client:
        page = await client.get("/")
        script = await client.get("/static/index-B3x_9aQz.js")

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    # A worker and what it imports follow the policy of the script, not that of the page.
    for answer in (page, script):
        assert answer.headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; worker-src 'self'; "
            "img-src 'self' data:; font-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
        )
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


async def test_the_page_is_told_the_configuration_and_nothing_of_it_is_markup(opened: Opened) -> None:
    settings = {
        "dashboard_lang": "ja",
        "dashboard_actions": True,
        "http_auth_mode": "jwt,api_key",
        "http_api_key_header": "X-Key'&",
        "jwt_issuer": "me",
        "jwt_audience": "us",
        "jwt_pem_file": "key.pem",
    }
    async with opened(**settings) as client:
        page = (await client.get("/")).text

    assert (
        '<html lang="ja" data-language="ja" data-auth="api_key,jwt" data-api-key-header="X-Key&#x27;&amp;" '
        f'data-actions="1" data-version="{__version__}">'
    ) in page


@pytest.mark.parametrize(
    ("setting", "locale", "shown"),
    [
        ("auto", {}, "en"),
        ("auto", {"LANG": "C"}, "en"),
        ("auto", {"LANG": "ja_JP.UTF-8"}, "ja"),
        ("auto", {"LANG": "ja_JP.UTF-8", "LC_ALL": "C.UTF-8"}, "en"),
        ("auto", {"LANG": "en_US.UTF-8", "LC_MESSAGES": "ja"}, "ja"),
        ("en", {"LANG": "ja_JP.UTF-8"}, "en"),
        ("ja", {"LANG": "C"}, "ja"),
    ],
)
async def test_the_language_is_that_of_the_setting_else_of_the_locale(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, setting: str, locale: dict[str, str], shown: str
) -> None:
    for name, value in locale.items():
        monkeypatch.setenv(name, value)

    async with opened(dashboard_lang=setting) as client:
        page = (await client.get("/", headers={"Accept-Language": "ja" if shown == "en" else "en"})).text

    assert f'<html lang="{shown}" data-language="{setting}" data-auth="none" ' in page


@pytest.mark.parametrize(
    ("root_path", "base"),
    # Without a known prefix the base is that of the address: a proxy may strip one.
    [("", "./"), ("/pyoco", "/pyoco/"), ('/"><script>', "/&quot;&gt;&lt;script&gt;/")],
)
async def test_addresses_are_relative_to_the_path_prefix(opened: Opened, root_path: str, base: str) -> None:
    async with opened(root_path) as client:
        page = (await client.get(f"{root_path}/")).text

    assert f'<base href="{base}" />' in page


async def test_the_page_is_checked_again_and_sent_only_when_it_has_changed(opened: Opened) -> None:
    async with opened() as client:
        page = await client.get("/")
        again = await client.get("/", headers={"If-None-Match": page.headers["etag"]})
    async with opened(dashboard_actions=True) as client:
        changed = await client.get("/", headers={"If-None-Match": page.headers["etag"]})

    assert page.headers["cache-control"] == "no-cache"
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", page.headers["etag"])
    assert changed.status_code == 200
    assert changed.headers["etag"] != page.headers["etag"]


async def test_only_names_that_change_with_their_content_are_cached_for_ever(opened: Opened) -> None:
    async with opened() as client:
        caching = {
            name: (await client.get(f"/static/{name}")).headers["cache-control"]
            for name in ("index-B3x_9aQz.js", "favicon.svg", "notices.txt")
        }

    for_ever = "public, max-age=31536000, immutable"
    assert caching == {"index-B3x_9aQz.js": for_ever, "favicon.svg": "no-cache", "notices.txt": "no-cache"}


async def test_an_answer_of_the_api_has_the_icon_of_the_page_in_a_browser(opened: Opened) -> None:
    async with opened() as client:
        icon = await client.get("/favicon.ico")

    assert (icon.status_code, icon.headers["content-type"], icon.text) == (200, "image/svg+xml", "<svg/>")


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("br, gzip", "br"),
        ("gzip, deflate, br", "br"),
        ("gzip", "gzip"),
        ("br;q=0, gzip", "gzip"),
        ("br;q=0.1, gzip;q=0.5", "gzip"),
        ("GZIP ; q=0.5", "gzip"),
        ("zstd", None),
        ("", None),
        (",", None),
        ("identity", None),
    ],
)
async def test_a_file_is_sent_in_the_best_accepted_encoding(
    opened: Opened, accepted: str, encoding: str | None
) -> None:
    async with opened() as client:
        request = client.build_request("GET", "/static/index-B3x_9aQz.js", headers={"Accept-Encoding": accepted})
        answer = await client.send(request, stream=True)
        sent = b"".join([chunk async for chunk in answer.aiter_raw()])

    expected = {None: SCRIPT, "gzip": gzip.compress(SCRIPT), "br": b"smaller"}[encoding]
    assert answer.headers.get("content-encoding") == encoding
    assert answer.headers["content-length"] == str(len(expected))
    assert answer.headers["vary"] == "Accept-Encoding"
    assert answer.headers["content-type"] == "application/javascript; charset=utf-8"
    assert len(sent) == len(expected)


async def test_the_tag_of_one_encoding_is_not_that_of_another(opened: Opened) -> None:
    async with opened() as client:
        plain = await client.get("/static/index-B3x_9aQz.js")
        headers = {"If-None-Match": plain.headers["etag"]}
        same = await client.get("/static/index-B3x_9aQz.js", headers=headers)
        other = await client.head("/static/index-B3x_9aQz.js", headers={**headers, "Accept-Encoding": "gzip"})

    assert same.status_code == 304
    assert other.status_code == 200
    assert other.headers["etag"] != plain.headers["etag"]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "nothing.js",
        "index-B3x_9aQz.js.br",
        "../index.html",
        "..%2findex.html",
        "%2e%2e/sources.sha256",
        "../../app.py",
        "//etc/passwd",
        "index-B3x_9aQz.js%00",
    ],
)
async def test_nothing_but_the_files_of_the_page_is_served(opened: Opened, path: str) -> None:
    async with opened() as client:
        # As it is: the client would resolve the dots.
        url = httpx.URL("http://localhost").copy_with(raw_path=f"/static/{path}".encode())
        answer = await client.get(url)

    assert answer.status_code == 404
    assert answer.json()["err_id"] == "ERR-PYOCO-0033"


async def test_page_and_files_are_open_to_everybody_while_the_api_is_not(opened: Opened) -> None:
    async with opened(http_auth_mode="api_key") as client:
        page, script, unknown = [await client.get(path) for path in ("/?x=1", "/static/notices.txt?v", "/static/none")]

    assert (page.status_code, script.status_code, unknown.status_code) == (200, 200, 404)


async def test_head_has_the_headers_of_get(opened: Opened) -> None:
    async with opened() as client:
        for path in ("/", "/static/notices.txt"):
            got, head = await client.get(path), await client.head(path)

            different = {"x-request-id", "x-correlation-id"}
            assert {k: v for k, v in head.headers.items() if k not in different} == {
                k: v for k, v in got.headers.items() if k not in different
            }


async def test_names_other_than_its_own_are_refused_for_the_page_too(opened: Opened) -> None:
    async with opened() as client:
        answer = await client.get("/", headers={"Host": "evil.example"})

    assert answer.status_code == 421


@pytest.mark.parametrize("accept", ["text/html,application/xhtml+xml,*/*;q=0.8", "application/json", "*/*"])
async def test_without_the_page_the_answer_says_how_to_get_it(opened: Opened, folder: Path, accept: str) -> None:
    (folder / "index.html").unlink()
    async with opened() as client:
        english, japanese = [
            await client.get("/", headers={"Accept": accept, "Accept-Language": language}) for language in ("en", "ja")
        ]

    assert english.status_code == japanese.status_code == 404
    assert "scripts/dashboard build" in english.text
    assert "含まれていません" in japanese.text
    is_html = accept.startswith("text/html")
    assert english.headers["content-type"].startswith("text/html" if is_html else "application/json")
    if is_html:
        assert '<html lang="ja">' in japanese.text
    else:
        assert english.json()["err_id"] == "ERR-PYOCO-0126"
