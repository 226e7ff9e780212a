"""The feature classes of TFDS: how each is stored, decoded and encoded."""

from headrace.datasets.features.audio import Audio
from headrace.datasets.features.base import DatasetFeature
from headrace.datasets.features.image import Image, LabeledImage
from headrace.datasets.features.label import ClassLabel
from headrace.datasets.features.mapping import FeaturesDict
from headrace.datasets.features.sequence import Dataset, Sequence, Video
from headrace.datasets.features.tensor import Scalar, Tensor, Text
from headrace.datasets.features.translation import BBox, BBoxFeature, Translation, TranslationVariableLanguages

__all__ = [
    "Audio",
    "BBox",
    "BBoxFeature",
    "ClassLabel",
    "Dataset",
    "DatasetFeature",
    "FeaturesDict",
    "Image",
    "LabeledImage",
    "Scalar",
    "Sequence",
    "Tensor",
    "Text",
    "Translation",
    "TranslationVariableLanguages",
    "Video",
]
