"""Training jobs and batch transform jobs: inputs, runs, artifacts and status."""
