"""Airflow 3 as the engine of batches, through its REST API v2."""
