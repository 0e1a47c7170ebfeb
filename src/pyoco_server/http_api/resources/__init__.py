"""What is not a run: workers, metrics, and later wheels, graphs, schedules."""
