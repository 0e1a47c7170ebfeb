"""The index and what is answered from it: lists, event history, explanations, metrics."""
