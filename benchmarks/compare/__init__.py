"""Headrace and its peers: same data, one run, each system in its own process, checked before it is timed."""
