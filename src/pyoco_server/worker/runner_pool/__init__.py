"""Executors: a pool of warm runner processes for the CLI, a thread for the library. Runs no user code in the loop."""
