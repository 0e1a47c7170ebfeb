"""Background jobs of a gateway: repair, cancels, retention, lost workers, lost events, dead jobs."""
