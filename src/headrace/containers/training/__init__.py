"""Running a user's script as a training job's process."""
