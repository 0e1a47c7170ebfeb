"""Live streams of runs: changes, log lines and events, sent to any number of followers."""
