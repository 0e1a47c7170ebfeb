"""Helpers of several tests: real servers and processes, started and stopped in order; it contains no tests."""
