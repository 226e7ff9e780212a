"""Amazon's algorithms: ``sagemaker.amazon``."""
