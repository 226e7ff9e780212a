"""Single steps of the core, one thread: what each costs per byte or per item."""
