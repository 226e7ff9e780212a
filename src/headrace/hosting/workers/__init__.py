"""Worker processes that hold a model and answer requests, and the queue of requests."""
