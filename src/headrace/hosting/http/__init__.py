"""The HTTP face of an endpoint: the application, its server, and the fast path."""
