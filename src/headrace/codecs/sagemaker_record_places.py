"""Where features stand in a SageMaker Record, and what they are called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["CONFIGURATION", "FEATURE", "LABEL", "METADATA", "UID", "VALUES", "Place", "names_of", "place_of"]

FEATURE, LABEL, UID, METADATA, CONFIGURATION = range(1, 6)
STRINGS = {"uid": UID, "metadata": METADATA, "configuration": CONFIGURATION}
LABEL_NAME = "label"
CLASH = "feature_"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a feature stands.

    Args:
        field: 1 the map of features, 2 that of labels, 3 uid, 4 metadata, 5 configuration.
        key: In the map.
    """

    field: int
    key: bytes = b""


VALUES = Place(FEATURE, b"values")
"""Where the SDK's writers put the vector."""


def names_of(places: Iterable[Place]) -> dict[str, Place]:
    """The names of places: features as in their map, the label ``values`` as ``label``, other labels as ``label_KEY``, and
    the strings as they are. A key of the features that is one of the other names is called ``feature_KEY``.

    >>> places = [Place(LABEL, b"score"), Place(LABEL, b"values"), Place(FEATURE, b"values"), Place(UID)]
    >>> list(names_of(places))
    ['values', 'label', 'label_score', 'uid']
    """
    ordered = sorted(places, key=lambda place: (place.field, place.key != VALUES.key, place.key))
    others = {_name(place): place for place in ordered if place.field != FEATURE}
    names: dict[str, Place] = {}
    for place in ordered:
        name = _name(place)
        while name in names or (place.field == FEATURE and name in others):
            name = CLASH + name
        names[name] = place
    return names


def _name(place: Place) -> str:
    for name, field in STRINGS.items():
        if place.field == field:
            return name
    key = place.key.decode(errors="surrogateescape")
    if place.field == FEATURE:
        return key
    return LABEL_NAME if place.key == VALUES.key else f"{LABEL_NAME}_{key}"


def place_of(name: str) -> Place:
    """The place that a name means when nothing else is known."""
    if name in STRINGS:
        return Place(STRINGS[name])
    if name == LABEL_NAME:
        return Place(LABEL, VALUES.key)
    if name.startswith(LABEL_NAME + "_"):
        return Place(LABEL, name.removeprefix(LABEL_NAME + "_").encode(errors="surrogateescape"))
    return Place(FEATURE, name.encode(errors="surrogateescape"))
