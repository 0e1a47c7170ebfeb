"""Live updates of runs and logs, shared by all subscribers of a run."""
