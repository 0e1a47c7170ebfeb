"""flow.yaml: bytes → a document that is known to run, or the reason why not. Pure; it imports no user code."""
