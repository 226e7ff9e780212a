"""``import sagemaker`` for unchanged notebooks, and errors for names of the SDK that are missing here."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["explain", "explain_missing_names", "install_as_sagemaker"]

OURS, THEIRS = "headrace.sagemaker", "sagemaker"
ELSEWHERE = {
    "base_serializers": "serializers",
    "base_deserializers": "deserializers",
    "base_predictor": "predictor",
    "serializer_utils": "amazon.common",
    "s3_utils": "s3",
    "local.local_session": "local",
}
"""Modules of the SDK whose names are in another module here."""

ALGORITHM = "of SageMaker's built-in algorithms only Linear Learner runs on this machine; train other models with SKLearn and a script"
TUNING = "there are no tuning jobs here: call fit in a loop over the values to try"
PROCESSING = "there are no processing jobs here: run the script directly, or as the entry_point of an SKLearn estimator"
FRAMEWORK = "there is no container for this framework here: give the script to SKLearn, which runs it with the installed packages"
SERVICE = "it is a service of AWS without a counterpart on this machine"
INTERNAL = "it belongs to the SDK's own code, and nothing here needs it"
ON_AWS = "the SDK needs it to talk to AWS, and nothing here does"
FILE_SYSTEM = "training data is in the store or in a folder here: TrainingInput accepts s3:// and file:// URIs"
_ALGORITHMS = "KMeans PCA LDA FactorizationMachines NTM RandomCutForest KNN Object2Vec IPInsights"
_WITH_MODELS = " ".join(f"{name} {name}Model {name}Predictor" for name in _ALGORITHMS.split())
_REASONS = {
    ALGORITHM: f"{_WITH_MODELS} AlgorithmEstimator algorithm amazon.kmeans amazon.pca amazon.lda amazon.factorization_machines "
    "amazon.ntm amazon.randomcutforest amazon.knn amazon.object2vec amazon.ipinsights",
    TUNING: "tuner parameter HyperparameterTuner HyperparameterTuningJobAnalytics",
    PROCESSING: "processing Processor ScriptProcessor spark sklearn.processing sklearn.SKLearnProcessor",
    FRAMEWORK: "tensorflow pytorch mxnet xgboost huggingface chainer rl djl_inference sparkml stabilityai",
    INTERNAL: "sklearn.defaults amazon.hyperparameter amazon.validation local.image local.data local.entities local.exceptions "
    "local.pipeline local.utils session_settings cli instance_types_gpu_info utilities",
    ON_AWS: "logs fw_utils vpc_utils git_utils job config telemetry image_uri_config instance_group instance_types accept_types "
    "model_uris script_uris environment_variables hyperparameters metric_definitions resource_requirements payloads enums iterators "
    "deprecations user_agent collection apiutils modules session.logger estimator.logger model.logger "
    "utils.to_string utils.get_config_value utils.get_nested_value utils.resolve_value_from_config utils.is_s3_path "
    "utils.generate_tensorboard_url utils.S3DataConfig utils.volume_size_supported utils.instance_supports_kms utils.logger "
    "s3.determine_bucket_and_prefix s3.logger",
    FILE_SYSTEM: "inputs.FileSystemInput inputs.FILE_SYSTEM_TYPES inputs.FILE_SYSTEM_ACCESS_MODES amazon.amazon_estimator.FileSystemRecordSet",
    SERVICE: "inputs.CreateModelInput inputs.TransformInput inputs.BatchDataCaptureConfig model.ModelPackage model.ModelBase "
    "session.container_def session.pipeline_container_def session.production_variant session.get_model_package_args "
    "session.get_create_model_package_request session.generate_default_sagemaker_bucket_name "
    "exceptions.CapacityError exceptions.AsyncInferenceError exceptions.AsyncInferenceModelError exceptions.ObjectNotExistedError "
    "exceptions.PollingTimeoutError exceptions.UnexpectedClientError exceptions.AutoMLStepInvalidModeError exceptions.ModelStreamError "
    "exceptions.InternalStreamFailure image_uris.config_for_framework image_uris.get_training_image_uri "
    "image_uris.get_base_python_image_uri serializers.retrieve_options serializers.retrieve_default deserializers.retrieve_options "
    "deserializers.retrieve_default content_types.retrieve_options content_types.retrieve_default predictor.retrieve_default "
    "amazon.amazon_estimator.AmazonAlgorithmEstimatorBase amazon.amazon_estimator.upload_numpy_to_s3_shards utils.repack_model "
    "utils.download_folder utils.download_file utils.create_tar_file utils.retries utils.retry_with_backoff utils.sts_regional_endpoint "
    "utils.aws_partition utils.secondary_training_status_changed utils.secondary_training_status_message utils.DeferredError "
    "utils.get_ecr_image_uri_prefix utils.format_tags utils.Tags analytics automl AutoML AutoMLJob AutoMLInput AutoMLV2 CandidateEstimator CandidateStep clarify debugger Profiler "
    "ProfilerConfig experiments feature_store jumpstart lineage metadata_properties model_card model_metrics ModelMetrics "
    "MetricsSource FileSource model_monitor ModelPackage multidatamodel network serve serverless async_inference wrangler "
    "workflow remote_function TrainingJobAnalytics PartnerAppAuthProvider ContainerBaseModel drift_check_baselines "
    "predictor_async compute_resource_requirements mlflow model_life_cycle amtviz batch_inference container_base_model "
    "explainer training_compiler interactive_apps inference_recommender lambda_helper dataset_definition partner_app aws_batch",
}
WITH_NAMES = frozenset(
    [
        "inputs",
        "model",
        "session",
        "estimator",
        "s3",
        "exceptions",
        "image_uris",
        "serializers",
        "deserializers",
        "content_types",
        "predictor",
        "utils",
        "amazon",
        "amazon.amazon_estimator",
        "local",
        "sklearn",
    ]
)
"""Modules that exist here, but lack some names of the SDK."""
REASONS = {name: reason for reason, names in _REASONS.items() for name in names.split()}


def explain(name: str) -> str | None:
    """Explain why a name of the SDK is missing, and what to do instead; ``None`` for a name that the SDK lacks, too.

    Args:
        name: The name below ``sagemaker``, with dots.
    """
    parts = name.split(".")
    known = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    reason = next((REASONS[part] for part in known if part in REASONS), None)
    return None if reason is None else f"sagemaker.{name} is not on this machine: {reason}"


def explain_missing_names() -> None:
    """Add a ``__getattr__`` to modules that explains their missing names."""
    for module in sorted({name.rpartition(".")[0] for name in REASONS}):
        if module in WITH_NAMES:
            importlib.import_module(f"{OURS}.{module}").__dict__["__getattr__"] = partial(_refuse, module)


def _refuse(module: str, name: str) -> Any:
    """Raise the error for a missing name: an ImportError, because ``from module import name`` keeps its message."""
    reason = None if name.startswith("_") else REASONS.get(f"{module}.{name}")
    if reason is not None:
        raise ImportError(f"{THEIRS}.{module}.{name} is not on this machine: {reason}", name=f"{OURS}.{module}")
    raise AttributeError(f"module {f'{OURS}.{module}'!r} has no attribute {name!r}")


def install_as_sagemaker() -> Callable[[], None]:
    """Make ``import sagemaker`` import :mod:`headrace.sagemaker`, and ``import sagemaker.x.y`` its modules.

    Call it in the first cell of a notebook to run the rest unchanged. It hides an installed SDK from this process.

    Returns:
        A function that undoes it.

    Raises:
        ImportError: The SDK is imported already, and code that has its names would use AWS.
    """
    found = sys.modules.get(THEIRS)
    if found is not None and found.__name__ != OURS:
        place = getattr(found, "__file__", None) or "no file"
        raise ImportError(
            f"sagemaker is already imported, from {place}: call install_as_sagemaker() first, in a fresh kernel or process"
        )
    finder = next((one for one in sys.meta_path if isinstance(one, _Finder)), None)
    if finder is None:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
    return finder.remove


class _Finder(MetaPathFinder):
    """Finds modules of Headrace by the SDK's names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname != THEIRS and not fullname.startswith(f"{THEIRS}."):
            return None
        name = fullname.removeprefix(THEIRS).removeprefix(".")
        ours = ".".join(filter(None, (OURS, ELSEWHERE.get(name, name))))
        if importlib.util.find_spec(ours) is None:
            raise ModuleNotFoundError(explain(name) or f"{OURS} has no module {name!r}", name=fullname)
        return ModuleSpec(fullname, _SameModule(ours), is_package=True)

    def remove(self) -> None:
        """Undo :func:`install_as_sagemaker`."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for name, module in list(sys.modules.items()):
            is_theirs = name == THEIRS or name.startswith(f"{THEIRS}.")
            if is_theirs and getattr(module, "__name__", "").startswith(OURS):
                del sys.modules[name]


class _SameModule(Loader):
    """Loads a module under a second name, without a second copy."""

    def __init__(self, ours: str) -> None:
        self._ours = ours
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        del spec
        module = importlib.import_module(self._ours)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # importlib has replaced it
