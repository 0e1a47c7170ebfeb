"""In-memory implementations of the ports, for tests of flows and of this program."""
