"""Plays the gateway's own code over stores in memory, one random order of everything per seed; it mends nothing."""
