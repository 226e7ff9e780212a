"""Batches made by processes: for user Python that holds the interpreter's lock."""
