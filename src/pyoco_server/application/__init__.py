"""The use cases: the only place where the core and the ports meet."""
