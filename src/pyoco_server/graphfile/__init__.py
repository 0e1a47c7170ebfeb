"""Graphs as documents: a parsed value → a graph that is known to be sound, or the reason why not. Pure."""
