"""The worker: takes jobs from the queue and has their flows run, in processes that only run user code."""
