"""The Record message of SageMaker."""
