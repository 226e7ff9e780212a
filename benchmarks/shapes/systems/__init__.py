"""The measured systems: one module per library, imported only in the processes that run it."""
