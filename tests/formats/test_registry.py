"""Formats that are registered, and those that installed distributions bring."""

import os
import re
import subprocess
import sys
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from tests.formats.golden import GOLDEN
from tests.formats.toy_table import FORMAT

import headrace as hr
from headrace.formats import registry
from headrace.formats.registry import OWN, format_named, format_names, format_of_name, register


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})


def test_a_registered_format_is_known_by_its_name_and_suffix():
    register(FORMAT)
    assert format_named("TOY") is FORMAT
    assert format_of_name("x.toy-00000-of-00002") == "toy"
    assert format_names()[: len(OWN) + 1] == [*OWN, "toy"]


def test_a_name_is_taken_once():
    register(FORMAT)
    register(FORMAT)  # again: nothing changes
    other = replace(FORMAT)
    with pytest.raises(ValueError, match=r"'toy' is taken: register\(format, replace=True\)"):
        register(replace(other, suffixes=(".other",)))
    register(replace(other, suffixes=(".other",)), replace=True)
    assert format_of_name("x.other") == "toy"
    for name in OWN:
        with pytest.raises(ValueError, match=f"'{name}' is taken by Headrace"):
            register(replace(FORMAT, name=name), replace=True)


def test_what_is_known_before_loading_is_what_the_formats_say(tmp_path):
    tar = tmp_path / "a.tar"
    with tarfile.open(tar, "w") as archive:
        archive.add(__file__, "a.txt")
    heads = [path.read_bytes()[:4096] for path in (*GOLDEN.rglob("*.*"), tar) if path.is_file()]
    heads += [b"", b"{", b'\xef\xbb\xbf \n{"a": 1}\n', b"a,b\n1,2\n", bytes(512), b"Obj\x01"]
    known = set()
    for name, own in OWN.items():
        found = format_named(name)
        assert own.suffixes == found.suffixes
        fitting = [head for head in heads if found.knows(head)]
        known |= {name} if fitting else set()
        assert all(own.begins is not None and re.match(own.begins, head, re.DOTALL) for head in fitting)
    assert known == {name for name, own in OWN.items() if own.begins is not None}


def test_only_formats_that_fit_are_loaded(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.jsonl").write_text('{"x": 1}\n')
    code = (
        "import sys, headrace as hr; hr.open(sys.argv[1]); "
        "print(sorted(name.split('.')[2] for name in sys.modules if name.startswith('headrace.formats.') and name.endswith('.format')))"
    )
    for name, loaded in (("a.csv", "['csv']"), ("b.jsonl", "['jsonl']")):
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / name)], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == loaded


def test_unknown_formats_are_refused():
    with pytest.raises(TypeError, match="expected a headrace.formats.Format, got str"):
        register("toy")
    for name in ("", "Toy", "to-y", "csv:x", "1toy"):
        with pytest.raises(ValueError, match="lower-case letters"):
            register(replace(FORMAT, name=name))


# ------------------------------------------------------------------------------------------------ distributions

MODULE = """
from tests.formats.toy_table import FORMAT
from dataclasses import replace
OTHER = replace(FORMAT, name="other", suffixes=(".other",), knows=lambda head: head.startswith(b"#other"))
NUMBER = 7
"""


def install(folder, name, entries):
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "\n".join(f"{key} = {value}" for key, value in entries.items())
    (info / "entry_points.txt").write_text(f"[headrace.formats]\n{lines}\n")
    (folder / "toy_module.py").write_text(MODULE)


def run(folder, code):
    """Run code in a process in which the distributions of a folder are installed."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    path = os.pathsep.join(filter(None, (str(folder), root, os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", "import headrace as hr, numpy as np\n" + code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


REFUSED = """
def refused(work):
    try:
        work()
    except hr.UnknownFormat as error:
        print(error)
"""


def test_a_distribution_brings_a_format(tmp_path):
    install(tmp_path, "a-toy", {"toy": "toy_module:FORMAT"})
    out = run(
        tmp_path,
        "hr.write('x.toy', {'a': np.arange(3)})\n"
        "import os; os.rename('x.toy', 'unnamed')\n"
        "print(hr.open('unnamed').format, len(hr.open('unnamed')), hr.verify('unnamed').ok)\n"
        "hr.convert('unnamed', 'y.tfrecord'); print(len(hr.records('y.tfrecord')))\n"
        "hr.write('z', {'a': np.arange(2)}, format='toy'); print(len(hr.open('z', format='toy')))",
    )
    assert out.split() == ["toy", "3", "True", "3", "2"]


def test_broken_entry_points_say_whose_they_are(tmp_path):
    install(tmp_path, "a-missing", {"missing": "no_such_module:FORMAT"})
    install(tmp_path, "a-number", {"number": "toy_module:NUMBER"})
    install(tmp_path, "a-misnamed", {"misnamed": "toy_module:FORMAT"})
    install(tmp_path, "a-twin", {"toy": "toy_module:FORMAT"})
    install(tmp_path, "b-twin", {"toy": "toy_module:FORMAT"})
    install(tmp_path, "a-thief", {"csv": "toy_module:FORMAT", "other": "toy_module:OTHER"})
    (tmp_path / "x.other").write_bytes(b"#other a\n1\n")
    (tmp_path / "x.strange").write_bytes(b"\0\1\2")
    out = run(
        tmp_path,
        REFUSED + "for name in ('missing', 'number', 'misnamed', 'toy', 'nothing'):\n"
        "    refused(lambda: hr.open('x.other', format=name))\n"
        "refused(lambda: hr.open('x.strange'))\n"
        "print(hr.open('x.other').format)",
    )
    missing, number, misnamed, twins, nothing, strange, opened = out.splitlines()
    assert (
        "from the entry point of a-missing 1.0, found ModuleNotFoundError: No module named 'no_such_module'" in missing
    )
    assert missing.endswith("Update or uninstall a-missing 1.0.")
    assert "a-number 1.0, found an object of type int" in number
    assert "a-misnamed 1.0, found a format named 'toy'" in misnamed
    assert "expected one distribution with a format 'toy', found a-twin 1.0, b-twin 1.0" in twins
    assert "'missing'" in nothing
    assert strange.count("Broken format:") == 5
    assert "a name that no format of Headrace itself has from the entry point of a-thief 1.0, found 'csv'" in strange
    assert opened == "toy"  # which is what its table calls itself


def test_known_files_are_opened_without_looking_for_distributions(tmp_path):
    install(tmp_path, "a-missing", {"missing": "no_such_module:FORMAT"})
    (tmp_path / "set").mkdir()
    hr.write(tmp_path / "set" / "x.tfrecord@3", {"a": np.arange(9)})
    (tmp_path / "set" / "x.tfrecord-00001-of-00003").rename(tmp_path / "unnamed")
    run(
        tmp_path,
        "import importlib.metadata as metadata\n"
        "from headrace.formats import registry\n"
        "def refuse(**options): raise AssertionError('it looked')\n"
        "metadata.entry_points = refuse\n"
        "assert len(hr.open(['set/x.tfrecord-00000-of-00003', 'unnamed'])) == 6\n"
        "hr.write('y.csv', {'a': np.arange(3)}); assert len(hr.open('y.csv')) == 3\n"
        "hr.write('folder', {'a': np.arange(3)}, format='npz_folder'); assert len(hr.open('folder')) == 3\n"
        "hr.convert('y.csv', 'z.jsonl'); assert hr.verify('z.jsonl').ok",
    )
