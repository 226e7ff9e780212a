"""Data made to harm its viewer. What a browser does with it is in ``test_browser``."""

import io
import json
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image
from tests.viewer.conftest import client_of

import headrace as hr
from headrace.viewer.dataset import ShownDataset, open_datasets

ATTACKS = [
    "<script>document.title='run'</script>",
    '"><img src=x onerror="document.title=\'run\'">',
    "'><svg/onload=document.title='run'>",
    "javascript:document.title='run'",
    "</td></table></main><iframe src=http://evil.example>",
    "<style>body{display:none}</style>",
    "{{7*7}}${7*7}<%= 7*7 %>",
    "\u202egnp.exe\u2066",
    "\x00\x1b[31m\x07\x7f",
    "\ud800",
    "<base href=http://evil.example/>",
    "<meta http-equiv=refresh content='0;url=http://evil.example'>",
    "a" * 100_000,
    "<!--",
    "]]>",
]


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def hostile_source():
    """Attacks in values and in names of features."""
    texts = [each.encode("utf-8", "surrogatepass").decode("utf-8", "replace") for each in ATTACKS]
    columns = {name[:200] or "empty": texts for name in texts}
    columns["bytes"] = [each.encode() for each in texts]
    columns["number"] = np.arange(len(texts))
    return hr.ColumnSource(columns)


PAGES = [
    "/0/",
    "/0/?row=1",
    "/0/schema",
    "/0/grid",
    "/0/order",
    "/0/faults",
    "/0/?where=%27script%27",
    "/0/?where=" + "%3Cscript%3E",
    "/compare",
    "/endpoints",
    "/<script>",
    "/0/?row=%3Cscript%3E",
    "/endpoints/%3Cscript%3E",
]


@pytest.mark.parametrize("page", PAGES)
def test_no_value_becomes_markup(page):
    shown = [ShownDataset(hostile_source(), name=f"<script>{n}</script>", code="'<script>'") for n in range(2)]
    answer = client_of(*shown).get(page)
    parser = _Tags()
    parser.feed(answer.text)
    tags = [tag for tag, _ in parser.found]
    assert tags.count("script") == 1
    assert not {"iframe", "style", "base", "object", "embed"} & set(tags)
    for tag, attributes in parser.found:
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        for name in ("href", "src", "action"):
            address = attributes.get(name)
            assert address is None or address.startswith(("/", "data:,", "#")), (tag, address)
            assert address is None or not address.startswith("//")
    for char in ("\x00", "\x1b", "\u202e", "\u2066", "\x7f"):
        assert char not in answer.text


def test_values_are_shown_as_they_are():
    answer = client_of(ShownDataset(hostile_source(), name="x", code="x")).get("/0/?row=0")
    assert "&lt;script&gt;document.title=&#x27;run&#x27;&lt;/script&gt;" in answer.text


def test_a_hundred_thousand_features():
    source = hr.ColumnSource({f"f{n}": np.arange(3) for n in range(100_000)})
    client = client_of(ShownDataset(source, name="wide", code="wide"))
    for page in ("/0/", "/0/?row=2", "/0/schema", "/0/?first=99990", "/0/order", "/0/grid"):
        answer = client.get(page)
        assert answer.status_code == 200, page
        assert len(answer.content) < 1_000_000
    assert client.get("/0/?where=f77777+%3D+2&format=json").text.count('"row"') == 1


def test_an_image_bomb_is_refused_without_its_memory(tmp_path):
    side = 60_000
    header = Image.new("L", (1, 1))
    out = io.BytesIO()
    header.save(out, "PNG")
    content = bytearray(out.getvalue())
    size = side.to_bytes(4, "big")
    content[16:24] = size + size
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    path = tmp_path / "bomb.tfrecord"
    hr.write(path, [{"image": bytes(content)}])
    client = client_of(open_datasets(str(path))[0])
    answer = client.get("/0/image?row=0&feature=image&size=64")
    assert answer.status_code == 422
    assert client.get("/0/").status_code == 200
    assert client.get("/0/grid").status_code == 200


@pytest.mark.parametrize("cut", [0, 1, 11, 12, 13, 40, 200])
def test_damaged_files_have_pages(tmp_path, cut):
    path = tmp_path / "damaged.tfrecord"
    hr.write(path, [{"x": row, "s": "text"} for row in range(10)])
    content = bytearray(path.read_bytes())
    content[cut] ^= 0xFF
    path.write_bytes(content)
    try:
        shown = open_datasets(str(path), format="tfrecord", codec="example")[0]
    except hr.DataError:
        return
    client = client_of(shown)
    for page in ("/0/", "/0/?row=3", "/0/schema", "/0/grid", "/0/order", "/0/faults"):
        answer = client.get(page)
        assert answer.status_code in (200, 400, 422), (page, answer.text)
        assert "Traceback" not in answer.text


def test_a_file_that_changes_while_it_is_shown(tmp_path):
    path = tmp_path / "rows.tfrecord"
    hr.write(path, [{"x": row, "s": "a" * 100} for row in range(1000)])
    client = client_of(open_datasets(str(path))[0])
    assert client.get("/0/?row=999").status_code == 200
    path.write_bytes(path.read_bytes()[:5000])
    for page in ("/0/?row=999", "/0/?start=900", "/0/?where=x+%3E+10", "/0/bytes?row=999", "/0/order?batch=3"):
        assert client.get(page).status_code in (200, 400, 422), page


def test_long_and_odd_queries(client):
    for query in (
        "where=" + "(" * 9999,
        "where=" + "a" * 10_001,
        "start=" + "9" * 400,
        "row=%00",
        "feature=%ff",
        "where=%00",
        "&" * 1000,
        "a=" * 1000,
    ):
        assert client.get(f"/0/?{query}").status_code in (200, 400)
        assert client.get(f"/0/image?row=0&{query}").status_code in (200, 422)


NUMBERS = [
    "-1",
    "--5",
    "-",
    "+5",
    "1e3",
    "0x10",
    "1_0",
    "1;2",
    "NaN",
    "%00",
    "%C2%B2",
    "%D9%A3",
    "9" * 400,
    "0" * 400 + "1",
    str(10**30),
    str(2**62),
]


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_of_any_form(client, number):
    for view, names in (
        ("", ("row", "start", "count", "first")),
        ("bytes", ("row", "fault", "shift")),
        ("order", ("batch", "epoch", "rank", "world", "seed", "batch_size")),
        ("grid", ("seed", "count", "feature", "by")),
        ("schema", ("first",)),
        ("image", ("row", "item", "size", "feature")),
    ):
        for name in names:
            answer = client.get(f"/0/{view}?{name}={number}")
            assert answer.status_code in (200, 400, 422), (view, name)


@pytest.mark.parametrize(
    "condition",
    [
        "(" * 4000 + "label=1" + ")" * 4000,
        "not " * 2400 + "label=1",
        " and ".join(["label=1"] * 700),
        "label in (" + ",".join(["1"] * 4900) + ")",
        "label=" + "9" * 5000,
        "label=1e999999",
        "tokens[99999999999999999999]=1",
        "label=" + "-" * 9000 + "1",
        "length(" * 1400 + "label" + ")" * 1400,
        "`" * 5000,
        "label = label = label",
    ],
)
def test_conditions_of_any_depth(client, condition):
    answer = client.get("/0/", params={"where": condition})
    assert answer.status_code in (200, 400)
    assert "Traceback" not in answer.text


def test_json_has_no_numbers_that_json_lacks(tmp_path):
    source = hr.ColumnSource({"x": np.array([np.nan, np.inf, -np.inf]), "c": np.array([1 + 2j, 0, 0])})
    answer = client_of(ShownDataset(source, name="x", code="x")).get("/0/?format=json")
    rows = json.loads(answer.text, parse_constant=pytest.fail)["rows"]
    assert [row["values"]["x"] for row in rows] == ["nan", "inf", "-inf"]
