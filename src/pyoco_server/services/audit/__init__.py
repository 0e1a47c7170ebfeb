"""The audit trail: recorded from the event log and beside other changes, and read page by page."""
