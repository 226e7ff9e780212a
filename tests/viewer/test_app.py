"""Pages and media over HTTP, as HTML and as JSON."""

import hashlib
import io
import json
import re
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.viewer.conftest import ROWS, data, picture

import headrace as hr
from headrace.viewer import app as app_module


def test_one_dataset_is_the_front_page(client):
    answer = client.get("/", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/0/")


def test_several_datasets(client_for, shown_file):
    client = client_for(shown_file, shown_file)
    assert data(client, "/")["datasets"] == [str(shown_file)] * 2
    assert client.get("/").text.count('href="/1/"') == 1


def test_without_a_dataset_there_are_endpoints(client_for):
    answer = client_for().get("/", follow_redirects=False)
    assert answer.headers["location"] == "/endpoints"


@pytest.mark.parametrize(
    "path", ["/0/", "/0/?row=5", "/0/schema", "/0/grid", "/0/order", "/0/bytes?row=5", "/0/faults", "/endpoints"]
)
def test_pages_are_also_json(client, path):
    html, plain = client.get(path), client.get(path, headers={"accept": "application/json"})
    assert html.headers["content-type"] == "text/html; charset=utf-8"
    assert plain.headers["content-type"] == "application/json"
    assert html.status_code == plain.status_code == 200
    again = client.get(f"{path}{'&' if '?' in path else '?'}format=json")
    assert again.headers["content-type"] == "application/json"
    assert isinstance(again.json(), dict)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nowhere", 404),
        ("/7/", 404),
        (f"/{'9' * 5000}/", 404),
        (f"/{'9' * 5000}/schema", 404),
        ("/0/nowhere", 404),
        ("/7/schema", 404),
        ("/static/nothing", 404),
        (f"/0/?row={ROWS}", 400),
        ("/0/?row=-1", 400),
        ("/0/?row=x", 400),
        ("/0/?start=1.5", 400),
        ("/0/?count=100000", 400),
        ("/0/?row=99999999999999999999999999", 400),
        ("/0/?where=lable+%3D+3", 400),
        ("/0/?where=%28", 400),
        ("/0/?where=name+%3E+3", 400),
        ("/0/grid?feature=nothing", 400),
        ("/0/order?rank=3&world=2", 400),
        ("/0/bytes?fault=0", 400),
        ("/compare", 400),
        ("/endpoints/nothing", 400),
        ("/0/image?row=0&feature=label", 422),
        ("/0/image?row=0&feature=image&item=1", 422),
        ("/0/image?row=0", 422),
        ("/0/audio?row=0&feature=name", 422),
    ],
)
def test_errors_say_what_is_wrong(client, path, status):
    answer = client.get(path)
    assert answer.status_code == status
    assert "Traceback" not in answer.text
    assert client.get(path, headers={"accept": "application/json"}).status_code == status


def test_images(client):
    whole = client.get("/0/image?row=3&feature=image")
    assert whole.headers["content-type"] == "image/png"
    assert whole.content == picture(3)
    assert whole.headers["content-security-policy"] == "default-src 'none'; sandbox"
    small = client.get("/0/image?row=3&feature=image&size=16")
    assert max(Image.open(io.BytesIO(small.content)).size) == 16
    position = client.get("/0/?format=json").json()["features"].index("image")
    assert client.get(f"/0/image?row=3&feature={position}").content == whole.content


def test_what_is_no_image_is_never_served(client_for, tmp_path):
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    html = b"<html><script>alert(1)</script></html>"
    cut = picture(0)[:-30]
    path = tmp_path / "bad.tfrecord"
    hr.write(path, [{"x": each} for each in (svg, html, cut, b"")])
    client = client_for(path)
    for row in range(4):
        for query in ("", "&size=64"):
            answer = client.get(f"/0/image?row={row}&feature=x{query}")
            served = answer.headers["content-type"]
            assert served in ("text/plain; charset=utf-8", "image/png", "image/jpeg")
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert client.get(f"/0/audio?row={row}&feature=x").status_code == 422


def test_arrays_of_pixels_are_images(client_for, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (5, 28, 28), np.uint8)
    np.save(tmp_path / "digits.npy", pixels)
    client = client_for(tmp_path / "digits.npy")
    name = data(client, "/0/")["features"][0]
    answer = client.get(f"/0/image?row=2&feature={name}")
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(answer.content))), pixels[2])
    assert data(client, "/0/grid?together=1")["groups"][0]["rows"]


def test_recordings_play(client_for, tmp_path):
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.zeros(100, "<i2").tobytes())
    path = tmp_path / "sounds.tfrecord"
    hr.write(path, [{"sound": out.getvalue()}])
    client = client_for(path)
    assert "<audio" in client.get("/0/").text
    answer = client.get("/0/audio?row=0&feature=sound")
    assert (answer.headers["content-type"], answer.content) == ("audio/wav", out.getvalue())


def test_a_page_that_takes_too_long_is_given_up(client, monkeypatch):
    monkeypatch.setattr(app_module, "PATIENCE_S", 0.0)
    answer = client.get("/0/")
    assert answer.status_code == 503
    assert "longer than" in answer.text


def test_a_page_that_fails_says_so(client, monkeypatch, shown):
    def fail(*_):
        raise RuntimeError("broken inside")

    monkeypatch.setattr(app_module, "rows_page", fail)
    answer = client.get("/0/")
    assert answer.status_code == 500
    assert "RuntimeError: broken inside" in answer.text


def test_searches_stream_lines_of_json(client):
    answer = client.get("/0/?where=label+%3D+2+and+width+%3E+10&count=5&format=json")
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["row"] for line in lines if "row" in line] == [11, 14, 17, 20, 23]
    assert lines[-1] == {"searched": 24, "finished": False}
    after = client.get("/0/?where=label+%3D+2+and+width+%3E+10&start=24&count=200&format=json")
    lines = [json.loads(line) for line in after.text.splitlines()]
    assert [line["row"] for line in lines if "row" in line] == list(range(26, ROWS, 3))
    assert lines[-1]["finished"] is True


def test_searches_as_a_page(client):
    answer = client.get("/0/?where=name+contains+%27example+29%27")
    assert answer.status_code == 200
    assert "11 rows fit" in answer.text
    assert answer.text.count("</html>") == 1
    assert "headrace.condition(" in answer.text


def test_nothing_is_written_to_the_data(client_for, tmp_path):
    path = tmp_path / "rows.tfrecord"
    hr.write(path, [{"image": picture(row), "label": row} for row in range(20)])
    before = _state(tmp_path)
    client = client_for(path)
    for address in (
        "/0/",
        "/0/?row=3",
        "/0/schema",
        "/0/grid",
        "/0/faults",
        "/0/order",
        "/0/bytes?row=2",
        "/0/?where=label+%3E+3",
        "/0/image?row=1&feature=image&size=32",
    ):
        assert client.get(address).status_code == 200
    assert _state(tmp_path) == before


def _state(folder: Path):
    return {
        p.name: (hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_mtime_ns) for p in sorted(folder.rglob("*"))
    }


def test_conditions_that_do_not_fit_the_types(client_for):
    source = hr.ColumnSource({"d": np.array(["2020-01-01"], "M8[D]"), "m": np.array([1], "m8[s]"), "i": np.array([1])})
    client = client_for(source)
    for text in ("d > 5", "d", "m > '3'", "m > 3.5", "i > 'x'"):
        answer = client.get("/0/", params={"where": text})
        assert answer.status_code == 400, text


def test_a_search_that_fails_says_so(client, monkeypatch):
    def fail(*_):
        raise TypeError("<no idea>")

    monkeypatch.setattr(app_module, "searches", fail)
    answer = client.get("/0/?where=width+%3E+1")
    assert answer.status_code == 500
    assert "this search failed with TypeError: &lt;no idea&gt;" in answer.text
    answer = client.get("/0/?where=width+%3E+1&format=json")
    assert (answer.status_code, answer.json()["error"]) == (500, "this search failed with TypeError: <no idea>")


def test_half_a_surrogate_pair_has_a_bar_without_an_address(client_for):
    client = client_for(hr.ColumnSource({"t": ["\ud800", "a"]}))
    for _ in range(100):
        answer = client.get("/0/schema")
        assert answer.status_code == 200
        if data(client, "/0/schema")["finished"]:
            break
    assert "where=t+%3D+%27a%27" in client.get("/0/schema").text


@pytest.fixture
def damaged(tmp_path):
    """A file of 20,000 rows, of which 15,000 is damaged."""
    path = tmp_path / "x.tfrecord"
    hr.write(path, {"x": np.arange(20000)})
    place = hr.open(path).where(15000).offset
    content = bytearray(path.read_bytes())
    content[place + 14] ^= 1
    path.write_bytes(content)
    return path


def test_a_search_in_a_damaged_file_ends_with_the_error(client_for, damaged):
    client = client_for(damaged)
    lines = [json.loads(line) for line in client.get("/0/?where=x%3E14997&format=json").text.splitlines()]
    assert [line["row"] for line in lines if "row" in line] == [14998, 14999]
    assert "record 15,000" in lines[-1]["error"] or "record 15000" in lines[-1]["error"]
    assert (lines[-1]["searched"], lines[-1]["finished"]) == (15000, False)
    near = client.get("/0/?where=x%3E%3D0&start=14998&count=2&format=json")
    found = [json.loads(line) for line in near.text.splitlines()]
    assert [line["row"] for line in found if "row" in line] == [14998, 14999]
    assert 'role="alert"' in client.get("/0/?where=x%3E14997").text
    assert client.get("/0/?where=x%3E14997&start=15000&format=json").status_code == 422


def test_a_search_says_how_far_it_is(client_for):
    client = client_for(hr.ColumnSource({"x": np.arange(50000)}))
    lines = [json.loads(line) for line in client.get("/0/?where=x%3D49999&format=json").text.splitlines()]
    assert lines[-1] == {"searched": 50000, "finished": True}


def test_what_is_found_is_paged_through_features(client_for):
    client = client_for(hr.ColumnSource({f"c{number:03}": np.arange(50) for number in range(100)}))
    html = client.get("/0/?where=c099%3E3&count=5").text.replace("&amp;", "&")
    [later] = re.findall(r'href="([^"]*)">Features after', html)
    assert "count=5" in later
    html = client.get(later).text.replace("&amp;", "&")
    assert "c040" in html
    [more] = re.findall(r'href="([^"]*)"[^>]*>More', html)
    assert "first=40" in more
    [later] = re.findall(r'href="([^"]*)">Features after', client.get("/0/?count=5").text.replace("&amp;", "&"))
    assert "count=5" in later
