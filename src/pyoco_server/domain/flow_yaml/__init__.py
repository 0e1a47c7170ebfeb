"""flow.yaml documents: strict reading, the graph language and allowed callables."""
