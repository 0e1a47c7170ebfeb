"""The worker itself: pulls jobs, keeps leases and heartbeats alive, registers with the fleet, drains on shutdown."""
