"""The built-in algorithm Linear Learner: trains many linear models side by side and keeps the best."""
