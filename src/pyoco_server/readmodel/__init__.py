"""The read model: what lists and counts show of a run, and which row is the newer one. Pure: it stores nothing."""
