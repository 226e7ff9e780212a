"""The built-in algorithm Linear Learner: linear models of one output or of several, trained many at a time."""
