"""The page itself: languages, themes, path prefixes, and that it needs nothing but the gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from support.browsers import Complaints, OpenPage, axe_violations
from support.prefix_proxy import prefix_proxy
from support.processes import port_of, reserve_port
from support.programs import Program

PREFIX = "/team/pyoco"
# What the first view may transfer.
MOST_SCRIPT_BYTES = 150 * 1024


@pytest.mark.parametrize(("language", "heading"), [("en", "Overview"), ("ja", "概要")])
def test_the_page_is_in_the_chosen_language_and_says_so_to_the_browser(
    open_page: OpenPage, language: Literal["en", "ja"], heading: str
) -> None:
    page = open_page(language=language)

    expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    expect(page.locator("html")).to_have_attribute("lang", language)


def test_the_language_can_be_changed_and_is_remembered(page: Page) -> None:
    page.get_by_label("Language").select_option("ja")

    expect(page.get_by_role("heading", level=1)).to_have_text("概要")
    expect(page.locator("html")).to_have_attribute("lang", "ja")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("概要")


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_the_first_page_is_accessible_and_fits(
    open_page: OpenPage, language: Literal["en", "ja"], theme: Literal["light", "dark"], width: int
) -> None:
    page = open_page(language=language, theme=theme, width=width)

    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert axe_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0


def test_the_colours_follow_the_system(open_page: OpenPage) -> None:
    light, dark = [
        open_page(theme=theme).evaluate("getComputedStyle(document.documentElement).backgroundColor")
        for theme in ("light", "dark")
    ]

    assert light != dark


def test_the_first_view_asks_nobody_else_and_transfers_few_scripts(page: Page, deployment: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_be_visible()

    resources = page.evaluate(
        "performance.getEntriesByType('resource').map(one => [one.name, one.encodedBodySize, one.decodedBodySize])"
    )
    scripts = [(sent, size) for name, sent, size in resources if name.endswith(".js")]
    assert [name for name, _, _ in resources if not name.startswith(f"{deployment}/")] == []
    assert scripts
    assert sum(sent for sent, _ in scripts) <= MOST_SCRIPT_BYTES
    # Compressed, as the build has prepared it.
    assert sum(sent for sent, _ in scripts) < sum(size for _, size in scripts) / 2


def test_the_licences_of_what_is_bundled_are_a_link_away(page: Page) -> None:
    page.get_by_role("link", name="Licences").click()

    expect(page.locator("pre")).to_contain_text("preact ")
    assert page.url.endswith("/static/notices.txt")


def test_the_page_works_below_a_prefix_that_the_gateway_does_not_know(open_page: OpenPage, deployment: str) -> None:
    with prefix_proxy(deployment, PREFIX) as address:
        page = open_page("?from=elsewhere#/runs", address=address)
        expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
        page.get_by_role("link", name="Workers").click()

        expect(page.get_by_role("heading", level=1)).to_have_text("Workers")
        assert page.url.startswith(f"{address}/")
        page.close()


def test_the_page_works_below_the_root_path_of_the_server(open_page: OpenPage, deployment: str, folder: Path) -> None:
    with reserve_port() as reserved:
        port = str(port_of(reserved))
        arguments = ("--factory", "--root-path", PREFIX, "--port", port)
        environment = {"PYOCO_DATA_DIR": str(folder / "data"), "PYOCO_INDEX_PATH": str(folder / "second.sqlite")}
        with (
            Program("-m", "uvicorn", "pyoco_server.http_api:create_app", *arguments, cwd=folder, env=environment) as up,
            prefix_proxy(f"http://127.0.0.1:{port}", PREFIX) as address,
        ):
            up.out.wait_for("Uvicorn running")
            page = open_page("#/runs", address=address)

            expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
            assert page.evaluate("document.baseURI") == f"{address}/"
            page.close()


def test_what_a_page_complains_about_is_noticed(page: Page, complaints: Complaints) -> None:
    page.evaluate("const script = document.createElement('script'); script.text = '1'; document.head.append(script)")
    with page.context.expect_event("weberror"):
        page.evaluate("setTimeout(() => { throw new Error('thrown') })")
    with page.expect_event("console", lambda message: "404" in message.text):
        page.evaluate("fetch('nowhere')")

    found = "\n".join(complaints.left())
    complaints.allow("")
    for expected in ("securitypolicyviolation: script-src-elem inline", "exception: thrown", "status of 404"):
        assert expected in found
