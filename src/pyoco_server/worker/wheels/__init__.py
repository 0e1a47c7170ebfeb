"""Wheel sync: keeps the environments of runners in step with the wheel registry."""
