"""The page at ``/``: send a request by hand and see the answer. It needs nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import html as markup
import re
from pathlib import Path

__all__ = ["HEADERS", "html"]

TEXT = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")


def html(title: str) -> str:
    """The page of an endpoint of this name."""
    return TEXT.replace("{title}", markup.escape(title))


def _hash(tag: str) -> str:
    """What a browser may run or apply: exactly the text that stands in the page."""
    found = re.search(rf"<{tag}>(.*?)</{tag}>", TEXT, re.DOTALL)
    assert found is not None
    return "'sha256-" + base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode() + "'"


HEADERS = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": f"default-src 'none'; script-src {_hash('script')}; style-src {_hash('style')}; "
    "connect-src 'self'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
