"""Single steps of the core, one thread, on data that stay in the cache: what each costs per byte or per item."""
