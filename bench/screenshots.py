"""`python -m bench.screenshots`: takes the pictures of the dashboard, from a made-up day of a small team."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, Page

from bench.browser import chromium
from bench.demo_history import day_of_runs
from bench.fill_ours import store_lives
from bench.systems import ROOT, Ours

PICTURES = ROOT / "docs" / "img" / "dashboard"
RUNS = 4000
PATIENCE_SEC = 60.0
WIDTH, HEIGHT = 1440, 900
# Charts and graphs are drawn after their texts.
SETTLED_MS = 1500

RELEASE = {
    "title": "Release",
    "nodes": [
        "build",
        *({"id": f"test_{name}", "maxAttempts": 3} for name in ("linux", "macos", "windows")),
        "lint",
        "docs",
        "package",
        "scan",
        "sign",
        {
            "id": "approve",
            "type": "wait",
            "title": "Go or no go",
            "prompt": {"question": "Ship version 1.4.0?", "choices": ["ship", "stop"]},
        },
        "deploy_canary",
        "deploy_europe",
        "deploy_asia",
        "announce",
    ],
    "edges": [
        *(["build", f"test_{name}"] for name in ("linux", "macos", "windows")),
        ["build", "lint"],
        ["build", "docs"],
        *([f"test_{name}", "package"] for name in ("linux", "macos", "windows")),
        ["lint", "package"],
        ["package", "scan"],
        ["package", "sign"],
        ["scan", "approve"],
        ["sign", "approve"],
        {"from": "approve", "to": "deploy_canary", "when": ["ship"]},
        ["deploy_canary", "deploy_europe"],
        ["deploy_canary", "deploy_asia"],
        ["deploy_europe", "announce"],
        ["deploy_asia", "announce"],
        ["docs", "announce"],
    ],
}


class Demo(Ours):
    """The product with the flows of the pictures."""

    resolver = f"{Path(__file__).with_name('demo_flows.py')}:resolve"

    def _settings(self) -> dict[str, str]:
        return {"PYOCO_PDCA_DATA_DIR": str(ROOT / "examples" / "pdca"), "PYOCO_DASHBOARD_LANG": "en"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A view at a moment. `ready`: a text that is there when it is complete."""

    name: str
    place: str
    ready: str
    theme: str = "light"
    language: str = "en"
    width: int = WIDTH
    height: int = HEIGHT


class Api:
    """The calls that set the scene; each fails loudly."""

    def __init__(self, port: int) -> None:
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)
        self._calls = 0

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        self._calls += 1
        headers = {"Idempotency-Key": f"scene-{self._calls:04d}"} if method == "POST" else {}
        answer = self._client.request(method, path, json=body, headers=headers)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def wait_for(self, run_id: str, *statuses: str) -> None:
        end = time.monotonic() + PATIENCE_SEC
        while self.send("GET", f"/runs/{run_id}")["status"] not in statuses:
            if time.monotonic() > end:
                raise TimeoutError(f"run {run_id} is not {' or '.join(statuses)}")
            time.sleep(0.1)


def set_scene(stack: Demo) -> dict[str, str]:
    """Stores the history and starts what is under way; returns the ids that the pictures show."""
    api = Api(stack.port)
    store_lives(*stack.nats(), day_of_runs(RUNS, until=time.time()))
    imported = []
    for pause_sec in (0.005, 0.01):
        asked = {"flow_name": "nightly_import", "params": {"pause_sec": pause_sec}}
        imported.append(api.send("POST", "/runs", asked)["run_id"])
        api.wait_for(imported[-1], "COMPLETED")
    training = api.send("POST", "/runs", {"flow_name": "train_forecast", "tags": ["forecast"]})
    for _ in range(3):
        api.send("POST", "/runs", {"flow_name": "train_forecast", "tag": "gpu", "tags": ["forecast"]})
    api.wait_for(training["run_id"], "RUNNING")
    return {
        "release": _release(api),
        "first": imported[0],
        "second": imported[1],
        "training": training["run_id"],
        "strategy": _rechecked(api),
    }


def _release(api: Api) -> str:
    """A release that waits for its approval."""
    api.send("PUT", "/graphs/release", RELEASE)
    execution: str = api.send("POST", "/executions", {"graphId": "release", "input": {"version": "1.4.0"}})[
        "executionId"
    ]
    api.send("POST", f"/executions/{execution}/start")
    claim = {"graphIds": ["release"], "workerId": "ci-1", "waitSec": 1}
    while claimed := api.send("POST", "/executions:claim", claim):
        time.sleep(0.15)  # so that the timeline has bars
        node = f"/executions/{execution}/nodes/{claimed['nodeId']}"
        api.send("POST", f"{node}/success", {"output": {"ok": True}})
    return execution


def _rechecked(api: Api) -> str:
    """Strategies with results; returns the id of one."""
    ids = [path.stem for path in sorted((ROOT / "examples" / "pdca").glob("*.csv"))]
    for strategy_id in ids:
        title = strategy_id.removeprefix("strat.").replace(".", " ")
        api.send("PUT", f"/pdca/strategies/{strategy_id}", {"title": title, "instrument": "EURUSD", "tags": ["fx"]})
    for _ in range(3):
        window = {"lookback_days": 90}
        asked = api.send("POST", "/pdca/recheck", {"strategies": ids, "window": window, "reason": "weekly"})
        end = time.monotonic() + PATIENCE_SEC
        while api.send("GET", f"/pdca/recheck/{asked['request_id']}")["status"] == "running" and time.monotonic() < end:
            time.sleep(0.1)
    return ids[0]


def pictures(ids: Mapping[str, str]) -> list[Picture]:
    release, first, second = f"#/runs/{ids['release']}", f"#/runs/{ids['first']}", ids["second"]
    return [
        Picture(name="overview", place="#/?range=24h", ready="gpu"),
        Picture(name="overview-dark", place="#/", ready="gpu", theme="dark"),
        Picture(name="overview-ja", place="#/", ready="gpu", language="ja"),
        Picture(name="runs", place="#/runs", ready="ingest_orders"),
        Picture(name="runs-dark", place="#/runs?status=FAILED", ready="ingest_orders", theme="dark"),
        Picture(name="run-graph", place=release, ready="approve"),
        Picture(name="run-graph-dark", place=release, ready="approve", theme="dark"),
        Picture(name="run-graph-ja", place=release, ready="approve", language="ja"),
        Picture(name="run-timeline", place=f"{first}/timeline", ready="check_orders"),
        Picture(name="run-log", place=f"{first}/log", ready="page=40"),
        Picture(name="run-log-dark", place=f"{first}/log", ready="page=40", theme="dark"),
        Picture(name="run-events", place=f"{first}/events", ready="EXECUTION_COMPLETED"),
        Picture(name="compare", place=f"#/compare?a={ids['first']}&b={second}", ready="check_orders"),
        Picture(name="flows", place="#/flows", ready="nightly_import"),
        Picture(name="flow", place="#/flows/nightly_import", ready="check_orders"),
        Picture(name="workers", place="#/workers", ready="default"),
        Picture(name="approvals", place="#/approvals", ready="Ship version"),
        Picture(name="strategy", place=f"#/strategies/strategy/{ids['strategy']}", ready="EURUSD"),
        Picture(name="audit-ja", place="#/audit", ready="release", language="ja"),
        Picture(name="run-phone", place=release, ready="approve", width=390, height=844),
        Picture(name="runs-phone", place="#/runs", ready="train_forecast", width=390, height=844),
    ]


def take(browser: Browser, base: str, picture: Picture, folder: Path) -> None:
    page: Page = browser.new_page(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme="dark" if picture.theme == "dark" else "light",
        reduced_motion="reduce",
    )
    page.add_init_script(f"localStorage.setItem('pyoco.language', '{picture.language}')")
    page.goto(base + picture.place)
    page.get_by_text(picture.ready).first.wait_for(timeout=PATIENCE_SEC * 1000)
    page.wait_for_timeout(SETTLED_MS)
    page.screenshot(path=folder / f"{picture.name}.png")
    page.close()


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(prog="scripts/screenshots", description="Takes the pictures of the dashboard.")
    parser.add_argument("folder", nargs="?", type=Path, default=PICTURES)
    parser.add_argument("--only", help="names of pictures joined by commas")
    asked = parser.parse_args()
    folder: Path = asked.folder
    folder.mkdir(parents=True, exist_ok=True)
    stack = Demo()
    try:
        stack.start("interval", worker_tags=["default"])
        ids = set_scene(stack)
        with chromium() as browser:
            wanted = (
                pictures(ids)
                if asked.only is None
                else [each for each in pictures(ids) if each.name in asked.only.split(",")]
            )
            for picture in wanted:
                print(f"{picture.name} …", file=sys.stderr)
                take(browser, f"http://127.0.0.1:{stack.port}/", picture, folder)
    finally:
        stack.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
