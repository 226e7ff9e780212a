"""Arrays of items that take no bytes, such as nulls: a few bytes could claim any number of them, and fastavro makes them one by one."""

from __future__ import annotations

from typing import Any

__all__ = ["MOST_EMPTY", "ItemCounter", "has_empty_items"]


MOST_EMPTY = 1 << 20
"""The most items without bytes in the arrays of one block."""
SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
COUNTED = ("bytes", "string")


def has_empty_items(kind: Any, named: dict[str, Any]) -> bool:
    """Whether a type has such arrays. ``named`` gets the types that have names."""
    if isinstance(kind, list):
        inner = kind
    elif isinstance(kind, dict):
        inner = [field["type"] for field in kind.get("fields", ())]
        inner += [kind[key] for key in ("type", "values", "items") if key in kind]
        if "name" in kind:
            named[kind["name"]] = kind
    else:
        return False
    found = [has_empty_items(each, named) for each in inner]  # in all of them: each may have names
    return any(found) or ("items" in kind and not _takes_bytes(kind["items"], named))


def _takes_bytes(kind: Any, named: dict[str, Any]) -> bool:
    """Whether every value of a type takes at least one byte."""
    if isinstance(kind, str):
        return _takes_bytes(named[kind], named) if kind in named else kind != "null"
    if not isinstance(kind, dict) or kind.get("type") in ("array", "map", "enum"):
        return True  # of a union, its branch is stored
    if "fields" in kind:
        return any(_takes_bytes(field["type"], named) for field in kind["fields"])
    return int(kind["size"]) > 0 if kind.get("type") == "fixed" else _takes_bytes(kind.get("type"), named)


class ItemCounter:
    """Walks the records of a block, and counts the items that take no bytes.

    Args:
        content: The block, decompressed.
        named: The types that have names.
    """

    def __init__(self, content: bytes, named: dict[str, Any]) -> None:
        self._content = content
        self._named = named
        self._at = 0
        self.items = 0

    def skip(self, kind: Any) -> None:
        """Pass over one value.

        Raises:
            ValueError: It has too many items, or does not end.
        """
        if isinstance(kind, list):
            return self.skip(kind[self._long()])
        name = kind if isinstance(kind, str) else kind.get("type")
        if isinstance(kind, str) and kind in self._named:
            return self.skip(self._named[kind])
        if not isinstance(name, str):
            return self.skip(name)
        if name in SIZES or name == "fixed":
            return self._pass(SIZES[name] if name in SIZES else int(kind["size"]))
        if name in COUNTED:
            return self._pass(self._long())
        if name in ("int", "long", "enum"):
            self._long()
        elif name in ("array", "map"):
            self._skip_items(kind.get("items", kind.get("values")), is_map=name == "map")
        else:
            for field in kind["fields"]:
                self.skip(field["type"])
        return None

    def _skip_items(self, kind: Any, *, is_map: bool) -> None:
        is_empty = not is_map and not _takes_bytes(kind, self._named)
        while count := self._long():
            if count < 0:
                count, _ = -count, self._long()  # and the bytes of these items
            if is_empty:
                self.items += count
                if self.items > MOST_EMPTY:
                    raise ValueError(f"more than {MOST_EMPTY:,} items that take no bytes")
                continue
            for _ in range(count):
                if is_map:
                    self._pass(self._long())
                self.skip(kind)

    def _pass(self, size: int) -> None:
        if not 0 <= size <= len(self._content) - self._at:
            raise ValueError("a value beyond the end of its block")
        self._at += size

    def _long(self) -> int:
        value = shift = 0
        while True:
            self._pass(1)
            byte = self._content[self._at - 1]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return (value >> 1) ^ -(value & 1)
            if shift > 63:
                raise ValueError("a number of more than 64 bits")
