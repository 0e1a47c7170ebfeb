"""Output of runs: captured where it is written, carried through a pipe, bounded, and stored as the run's log."""
