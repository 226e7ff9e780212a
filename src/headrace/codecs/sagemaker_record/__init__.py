"""sagemaker_record."""
