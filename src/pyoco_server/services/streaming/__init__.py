"""Live streams: run changes (`watch_hub`) and log lines (`log_stream_hub`), pushed to any number of clients."""
