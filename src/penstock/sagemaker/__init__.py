"""SageMaker's own names, for scripts that move over by changing imports."""
