"""`/pdca` and `/gui`: rechecks of strategies."""
