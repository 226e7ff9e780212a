"""In the style of the inference toolkit: its encoders and errors, a context argument, a warm-up, a requirement."""

import json
import os
import textwrap

import tiny_scaling
from sagemaker_inference import content_types, decoder, encoder, errors

WARM = []


def model_fn(model_dir, context):
    assert context.system_properties["model_dir"] == model_dir
    with open(os.path.join(model_dir, "factor.json")) as file:
        return json.load(file)["factor"]


def model_warmup_fn(model_dir, model):
    WARM.append(tiny_scaling.scaled(1, model))


def input_fn(input_data, content_type, context):
    if content_type not in (content_types.CSV, content_types.JSON, content_types.NPY):
        raise errors.UnsupportedFormatError(content_type)
    return decoder.decode(input_data, content_type)


def predict_fn(data, model):
    if (data < 0).any():
        message = textwrap.dedent("values below zero cannot be scaled")
        raise errors.BaseInferenceToolkitError(422, message, "Negative")
    return tiny_scaling.scaled(data, model)


def output_fn(prediction, accept, context):
    context.set_response_header(0, "X-Amzn-SageMaker-Custom-Attributes", "warm=%d" % len(WARM))
    return encoder.encode(prediction, accept)
