"""The classes of feature that TFDS datasets are made of: how each is stored, decoded and encoded."""

from penstock.datasets.features.audio import Audio
from penstock.datasets.features.base import DatasetFeature
from penstock.datasets.features.box import BBox, BBoxFeature
from penstock.datasets.features.image import Image, LabeledImage
from penstock.datasets.features.label import ClassLabel
from penstock.datasets.features.mapping import FeaturesDict
from penstock.datasets.features.sequence import Dataset, Sequence, Video
from penstock.datasets.features.tensor import Scalar, Tensor, Text
from penstock.datasets.features.translation import Translation, TranslationVariableLanguages

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
