"""pyoco-server: runs Python workflows on a fleet of workers."""
