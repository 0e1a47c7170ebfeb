"""Plays the gateway's own code over stores in memory, in one random order per seed."""
