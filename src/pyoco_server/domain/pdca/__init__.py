"""The PDCA API: strategies, their rechecks in batches, and the results of these. Pure."""
