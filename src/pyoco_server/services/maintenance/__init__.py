"""Background jobs of a gateway: repair, cancels, retention, lost workers, dead jobs."""
