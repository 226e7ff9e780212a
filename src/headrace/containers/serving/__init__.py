"""A user's script as a handler of requests."""
