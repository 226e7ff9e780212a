"""Training jobs: the tree that a container finds, its run, its artifacts, and what is known of it."""
