"""Typed stores on top of the ports."""
