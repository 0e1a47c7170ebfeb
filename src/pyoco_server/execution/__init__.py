"""The core: what an execution is, what may be asked of it, and what then happens. Pure and synchronous.

No clock, no ids, no I/O: everything a decision needs is in its arguments. Start reading at `decide.py` (the rules) and
`evolve.py` (their consequences).
"""
