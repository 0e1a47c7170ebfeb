"""The DAG that runs one batch of a recheck: put this file and `strategy_metrics.py` into Airflow's dags folder.

The result of the task `report` is what pyoco-server reads: health and measures of each strategy. A DAG of your own may
have other tasks before it; the task that is named `report` returns the same form, of at most 64 KB.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag, get_current_context, task


@dag(
    dag_id="pdca_recheck",
    schedule=None,  # only pyoco-server starts it
    # A killed scheduler or worker costs a try; without retries the batch would fail.
    default_args={"retries": 3, "retry_delay": timedelta(seconds=5)},
    tags=["pyoco"],
)
def pdca_recheck() -> None:
    @task
    def report() -> dict[str, object]:
        conf = get_current_context()["dag_run"].conf
        return {"results": [{"strategy": s} for s in conf["strategies"]]}

    report()


pdca_recheck()
