"""The HTTP side of an endpoint: the application, its server, and the fast path."""
