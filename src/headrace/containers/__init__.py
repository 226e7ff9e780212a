"""What trains and answers: a user's script, run as SageMaker's containers run it."""
