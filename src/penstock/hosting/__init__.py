"""Endpoints: a model, or containers in series, answering over HTTP on this machine as SageMaker hosts them."""

from __future__ import annotations

from penstock.hosting.client import Answer, Client, ModelError
from penstock.hosting.endpoint import Endpoint, EndpointError, create_endpoint, find_endpoint, list_endpoints
from penstock.hosting.pipeline import Member, SerialPipeline, serial_pipeline
from penstock.hosting.recognising import linear_learner_stage, recognise, script_stage
from penstock.hosting.server import application, serve
from penstock.hosting.settings import Settings
from penstock.hosting.stage import Stage

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
