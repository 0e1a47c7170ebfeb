"""Ports kept in memory: the reference for each contract suite, never a store for production."""
