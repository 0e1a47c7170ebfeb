"""Use cases: one package per capability. Only here do the domain and the ports meet."""
