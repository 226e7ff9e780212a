"""The systems that are measured: one module for each library, imported only in the processes that run it."""
