"""`/runs`: the run API (run, task, unix seconds)."""
