"""What runs in the fork server and in runner processes: loads flows, runs them, reports steps to the supervisor.

Modules here must stay cheap to import: they are loaded before the first fork and shared by all runners.
"""
