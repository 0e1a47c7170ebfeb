"""What several tests need: real servers and processes, started and stopped in order; no test lives here."""
