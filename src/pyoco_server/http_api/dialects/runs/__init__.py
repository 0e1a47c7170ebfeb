"""`/runs`: the contract of pyoco-server (run, task, unix seconds)."""
