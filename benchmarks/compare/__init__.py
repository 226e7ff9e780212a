"""Headrace beside its peers: the same data, one run, each system in a process of its own, checked before it is timed."""
