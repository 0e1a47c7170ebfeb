"""The DAG that runs one batch of a recheck. Copy this file and `../strategy_metrics.py` into Airflow's dags folder.

`<strategy id>.csv` are in the folder PYOCO_PDCA_DATA_DIR of Airflow's workers. A DAG of your own may have other tasks
before it; what its task `report` returns is what pyoco-server reads, as JSON of at most 64 KB. A task may run twice.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import dag, get_current_context, task

from strategy_metrics import METRICS, health_of, measure, read_returns


@dag(
    dag_id="pdca_recheck",
    schedule=None,  # only pyoco-server triggers it
    # A killed scheduler or worker costs a try; so does a task that starts before the API server is back, after 16 s.
    # Pauses of 5, 15, 45 and then 60 s bridge a restart of four minutes.
    default_args={
        "retries": 5,
        "retry_delay": timedelta(seconds=5),
        "retry_exponential_backoff": 3,
        "max_retry_delay": timedelta(seconds=60),
    },
    tags=["pyoco"],
)
def pdca_recheck() -> None:
    @task
    def report() -> dict[str, object]:
        conf = get_current_context()["dag_run"].conf
        folder = Path(os.environ["PYOCO_PDCA_DATA_DIR"])
        asked = conf["params"].get("recalc_metrics", METRICS)
        results = []
        for strategy in conf["strategies"]:
            returns = read_returns(folder, strategy, conf["window"])
            values = () if returns is None else returns.values
            kpi = measure(values, asked)
            results.append({"strategy": strategy, "health": health_of(kpi, len(values)), "kpi": kpi})
        rows = [",".join([str(one["strategy"]), str(one["health"])]) for one in results]
        text = "\n".join(["strategy,health", *rows, ""])
        name = f"batch-{conf['batch']:04}.csv"
        return {"results": results, "reports": [{"name": name, "media_type": "text/csv", "text": text}]}

    report()


pdca_recheck()
