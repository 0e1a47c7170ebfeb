"""pyoco-server: runs Python workflows on a fleet of workers."""

__version__ = "1.0.0.dev0"
