"""Runs a user's script as the process of a training job."""
