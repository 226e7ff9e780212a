"""Image URIs. They name the containers of SageMaker; programs of Headrace run in their place."""

from __future__ import annotations

from typing import Any

from headrace.sagemaker.arguments import warn_old_name

__all__ = ["get_image_uri", "image_name", "retrieve"]

ACCOUNTS = {
    "linear-learner": {"us-east-1": "382416733822", "us-east-2": "404615174143", "us-west-2": "174872318107", "eu-west-1": "438346466558"},
    "sklearn": {"us-east-1": "683313688378", "us-east-2": "257758044811", "us-west-2": "246618743249", "eu-west-1": "141502667606"},
}  # fmt: skip
REPOSITORIES = {"linear-learner": "linear-learner", "sklearn": "sagemaker-scikit-learn"}
SKLEARN_VERSIONS = ("0.20.0", "0.23-1", "1.0-1", "1.2-1", "1.4-2")
ANY_ACCOUNT = "000000000000"


def retrieve(framework: str, region: str, version: str | None = None, *more: Any, **others: Any) -> str:
    """Return the URI of an image.

    Args:
        framework: ``"linear-learner"`` or ``"sklearn"``.
        region: Region of AWS.
        version: ``"1"`` for Linear Learner, a version of SageMaker's image for scikit-learn.
        more, others: Other arguments of the SDK (``py_version``, ``instance_type``, ``image_scope``), ignored.

    Raises:
        ValueError: The framework does not run here, or there is no such version.

    >>> retrieve("linear-learner", "us-east-1")
    '382416733822.dkr.ecr.us-east-1.amazonaws.com/linear-learner:1'
    """
    del more, others
    if framework not in REPOSITORIES:
        raise ValueError(f"{framework!r} does not run here; 'linear-learner' and 'sklearn' do")
    if framework == "linear-learner":
        if version not in (None, "1", "latest"):
            raise ValueError(f"Unsupported linear-learner version: {version}. Supported linear-learner version(s): 1.")
        tag = version or "1"
    else:
        if version not in SKLEARN_VERSIONS:
            raise ValueError(f"Unsupported sklearn version: {version}. Supported: {', '.join(SKLEARN_VERSIONS)}.")
        tag = f"{version}-cpu-py3"
    account = ACCOUNTS[framework].get(region, ANY_ACCOUNT)
    return f"{account}.dkr.ecr.{region}.amazonaws.com/{REPOSITORIES[framework]}:{tag}"


def get_image_uri(region_name: str, repo_name: str, repo_version: str = "1") -> str:
    """:func:`retrieve` by its name in version 1 of the SDK."""
    message = "get_image_uri is image_uris.retrieve in version 2 of the SDK and here"
    warn_old_name(message)
    return retrieve(repo_name, region_name, "1" if repo_version == "latest" else repo_version)


def image_name(image_uri: str) -> str:
    """The name of an image, without registry and tag. Job names begin with it.

    >>> image_name("683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-scikit-learn:1.2-1-cpu-py3")
    'sagemaker-scikit-learn'
    """
    return image_uri.rpartition("/")[2].partition(":")[0]
