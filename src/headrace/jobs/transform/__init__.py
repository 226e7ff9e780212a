"""Batch transform: sends the objects of a prefix through a model and stores the answers."""
