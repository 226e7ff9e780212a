"""Endpoints on a Ray cluster: replicas of the application under Ray Serve, and the process that looks after them."""
