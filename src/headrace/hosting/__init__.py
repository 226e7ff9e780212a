"""Endpoints: a model, or several containers in series, served over HTTP on this machine as SageMaker hosts them."""

from __future__ import annotations

from headrace.hosting.client import Client, InvocationResult, ModelError
from headrace.hosting.endpoint import Endpoint, EndpointError, create_endpoint, find_endpoint, list_endpoints
from headrace.hosting.http.server import application, serve
from headrace.hosting.pipeline import PipelineMember, SerialPipeline, serial_pipeline
from headrace.hosting.settings import Settings
from headrace.hosting.stage import Stage, linear_learner_stage, recognise, script_stage

__all__ = [
    "Client",
    "Endpoint",
    "EndpointError",
    "InvocationResult",
    "ModelError",
    "PipelineMember",
    "SerialPipeline",
    "Settings",
    "Stage",
    "application",
    "create_endpoint",
    "find_endpoint",
    "linear_learner_stage",
    "list_endpoints",
    "recognise",
    "script_stage",
    "serial_pipeline",
    "serve",
]
