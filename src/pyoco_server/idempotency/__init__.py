"""Requests that are done once, however often they are sent: their keys, their digests, what is kept of them. Pure."""
