"""One attempt at one run: parse the job, start, record steps, store the end, decide the queue disposition."""
