"""The docs page: it needs no other host and runs only its own scripts."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html import unescape

import httpx

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app


async def get(path: str) -> httpx.Response:
    transport = httpx.ASGITransport(app=create_app(NatsBackendConfig()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.get(path)


async def test_all_assets_of_the_page_are_served_by_the_gateway() -> None:
    page = (await get("/docs")).text

    links = [unescape(link) for link in re.findall(r'(?:src|href)="([^"]+)"', page)]
    assert len(links) == 3
    assert "://" not in page
    for link in links:
        assert (await get(link)).status_code == 200
    assert "'/openapi.json'" in page


async def test_only_scripts_of_the_gateway_and_of_this_page_may_run() -> None:
    page = await get("/docs")

    (inline,) = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
    policy = page.headers["content-security-policy"]
    assert f"script-src 'self' 'sha256-{b64encode(sha256(inline.encode()).digest()).decode()}';" in policy
    assert policy.startswith("default-src 'none'")


async def test_every_other_response_may_load_and_run_nothing() -> None:
    for path in ("/openapi.json", "/nowhere"):
        assert (await get(path)).headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
