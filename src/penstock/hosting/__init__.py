"""Endpoints: a model, or containers in series, answering over HTTP on this machine as SageMaker hosts them."""
