"""Single steps of the core, one thread, on data that stay in the CPU cache: the cost per byte or per item."""
