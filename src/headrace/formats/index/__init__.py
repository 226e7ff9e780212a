"""Record offsets: built once, stored in the cache, verified by block."""
