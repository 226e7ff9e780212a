"""Processes that hold a model and answer requests, and what gives them their work."""
