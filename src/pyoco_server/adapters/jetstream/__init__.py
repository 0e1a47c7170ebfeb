"""The ports on NATS JetStream: the only package that imports nats."""
