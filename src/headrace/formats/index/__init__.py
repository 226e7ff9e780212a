"""Where records begin: built once, kept in the cache, checked by block."""
