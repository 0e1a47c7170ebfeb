"""What a run has written, line by line: lines, the chunks they are stored in, and places in a log. Pure."""
