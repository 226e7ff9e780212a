"""The public behaviour of SageMaker's container packages, for scripts that import them.

Scripts reach these modules under the names of the packages (``sagemaker_containers.beta.framework.worker``, ...), inside jobs
and endpoints only: see :mod:`.shim`. A job may run under another interpreter than ours, so nothing here imports the rest of
headrace when it is loaded, and nothing needs more than NumPy.
"""
