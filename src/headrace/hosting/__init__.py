"""Endpoints: a model, or containers in series, answering over HTTP on this machine as SageMaker hosts them."""

from __future__ import annotations

from headrace.hosting.client import Answer, Client, ModelError
from headrace.hosting.endpoint import Endpoint, EndpointError, create_endpoint, find_endpoint, list_endpoints
from headrace.hosting.http.server import application, serve
from headrace.hosting.pipeline import Member, SerialPipeline, serial_pipeline
from headrace.hosting.settings import Settings
from headrace.hosting.stage import Stage, linear_learner_stage, recognise, script_stage

__all__ = [
    "Answer",
    "Client",
    "Endpoint",
    "EndpointError",
    "Member",
    "ModelError",
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
