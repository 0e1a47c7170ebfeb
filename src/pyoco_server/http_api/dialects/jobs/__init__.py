"""`/jobs`: a job with its log and its tags (job, parameters, RFC 3339); and `/tags`, the tags there are."""
