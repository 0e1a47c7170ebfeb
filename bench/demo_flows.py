"""Flows with parallel tasks, colours and warnings, which run while the pictures of the dashboard are taken."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from pyoco import Flow, task
from pyoco.core.context import Context

sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))
import pdca_recheck

logger = logging.getLogger("import")
SOURCES = ("orders", "customers", "returns")


@task
def fetch(ctx: Context, pause_sec: float = 0.01) -> dict[str, int]:
    rows = {}
    for number, source in enumerate(SOURCES, start=1):
        for page in range(1, 41):
            print(f"\x1b[2mGET\x1b[0m /{source}?page={page} \x1b[32m200\x1b[0m {page * 37 % 90 + 10} ms")
            if page % 17 == 0:
                logger.warning("%s: page %d was slow, trying a smaller one", source, page)
            time.sleep(pause_sec)
        rows[source] = number * 1840
    return rows


@task
def check_orders(fetch: dict[str, int]) -> int:
    time.sleep(0.4)
    print(f"\x1b[1morders\x1b[0m {fetch['orders']} rows, \x1b[33m3 without an amount\x1b[0m")
    return fetch["orders"] - 3


@task
def check_customers(fetch: dict[str, int]) -> int:
    time.sleep(0.7)
    print(f"\x1b[1mcustomers\x1b[0m {fetch['customers']} rows")
    return fetch["customers"]


@task
def load(check_orders: int, check_customers: int) -> dict[str, int]:
    logger.info("loading %d rows", check_orders + check_customers)
    time.sleep(0.5)
    return {"orders": check_orders, "customers": check_customers}


@task
def notify(load: dict[str, int]) -> str:
    return f"{sum(load.values())} rows imported"


@task
def hold(ctx: Context, seconds: float = 600.0) -> str:
    end = time.monotonic() + seconds
    percent = 0
    while time.monotonic() < end and not ctx.is_cancelled:
        percent = min(99, percent + 1)
        ctx.progress(percent, f"epoch {percent}")
        print(f"epoch {percent}: loss {1 / (percent + 1):.4f}")
        time.sleep(0.5)
    return "done"


FLOWS = {
    "nightly_import": Flow("nightly_import") >> fetch >> (check_orders & check_customers) >> load >> notify,
    "train_forecast": Flow("train_forecast") >> hold,
    "pdca.recheck": pdca_recheck.FLOW,
}


def resolve(flow_name: str) -> Flow:
    return FLOWS[flow_name]
