"""What import-linter cannot check: the compiled module, the top-level package, file sizes, and the laws of the house."""

import ast
import collections
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import headrace

SOURCE = Path(headrace.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
NATIVE_LAYERS = {"contracts", "io", "formats", "codecs", "sampling", "loading"}
OPTIONAL = [
    "torch",
    "jax",
    "sklearn",
    "scipy",
    "pandas",
    "PIL",
    "isal",
    "rich",
    "typer",
    "cramjam",
    "tensorflow",
    "simplejpeg",
    "pyarrow",
    "fastavro",
    "obstore",
    "starlette",
    "uvicorn",
    "grain",
    "google.protobuf",
    "ray",
]


def imports(path):
    """Names that a module imports, as ``package`` or ``package.name``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_importers_of_the_native_module_and_the_root(path):
    layer = path.relative_to(SOURCE).parts[0]
    for name in imports(path):
        if name.startswith("headrace._native"):
            assert layer in NATIVE_LAYERS, f"{layer} may not use the native module"
        root = name.startswith("headrace.") and name.count(".") == 1 and not (SOURCE / name.split(".")[1]).exists()
        module = (
            (SOURCE / (name.split(".")[1] + ".py")).exists() if name.count(".") == 1 and name != "headrace" else False
        )
        if (name == "headrace" or (root and not module)) and name != "headrace._native":
            assert layer in ("cli", "__main__.py", "sagemaker"), (
                f"{path.name} imports {name}: import from the module that has it"
            )


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_modules_are_small(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


FOR_IPYTHON = {"load_ipython_extension"}
"""What IPython looks for by name."""


def test_the_top_level_names_match_the_declaration():
    public = {
        name
        for name in dir(headrace)
        if not name.startswith("_") and name not in FOR_IPYTHON and not isinstance(getattr(headrace, name), ModuleType)
    }
    assert sorted(headrace.__all__) == sorted(public)  # ruff keeps their order


@pytest.mark.parametrize("statement", ["import headrace", "from headrace import *"])
def test_importing_loads_nothing_optional(statement):
    code = f"import sys; {statement}; print([name for name in {OPTIONAL!r} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_importing_loads_what_is_asked_for():
    code = (
        "import sys, headrace; few = len(sys.modules); early = 'numpy' in sys.modules; headrace.Loader;"
        "print(early, 'headrace.loading.loader' in sys.modules, len(sys.modules) > few + 50, headrace.errors.DataError.__name__)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False True True DataError"


EXTRAS = [
    *(name for name in OPTIONAL if name not in ("rich", "typer")),  # part of every installation
    *("pytest", "hypothesis", "zstandard", "brotli", "joblib", "httptools", "uvloop", "jsonpath_ng", "datasets"),
    *("httpx", "tqdm", "threadpoolctl", "torchdata", "numba", "matplotlib"),
]
NEED_EXTRAS = {f"headrace.testing.{name}" for name in ("codecs", "formats", "sources", "strategies")}
"""The suites themselves, which are written with pytest and hypothesis."""

LOOK_AT_EVERYTHING = """
import importlib, inspect, pkgutil, pydoc, sys
for name in {extras!r}:
    sys.modules[name] = None
import headrace as hr
names = [found.name for found in pkgutil.walk_packages(hr.__path__, "headrace.")]
assert {needing!r} <= set(names) and len(names) > 250
for name in ["headrace", *names]:
    if name in {needing!r} or name == "headrace.__main__" or ".toolkit.site" in name:
        continue
    module = importlib.import_module(name)
    for shown in dir(module):
        getattr(module, shown)
    inspect.getmembers(module)
    pydoc.render_doc(module)
"""


def test_everything_can_be_looked_at_without_any_extra():
    code = LOOK_AT_EVERYTHING.format(extras=EXTRAS, needing=NEED_EXTRAS)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr


def test_suites_say_what_they_need():
    code = (
        "import sys; sys.modules['hypothesis'] = None; import headrace as hr\n"
        "assert hr.testing.KINDS and 'FormatTests' not in dir(hr.testing)\n"
        "try: from headrace.testing import FormatTests\n"
        "except hr.MissingExtra as error: print(error)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "headrace[test]"' in out.stdout


def test_the_top_level_exposes_only_its_packages():
    assert headrace.testing.__name__ == "headrace.testing"
    for name in ("nothing", "re", "_registries"):
        with pytest.raises(AttributeError, match=name):
            getattr(headrace, name)


def test_type_checkers_and_python_find_the_same_names():
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    reported = {
        alias.name: node.module
        for branch in tree.body
        if isinstance(branch, ast.If)
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {name: f"headrace.{headrace._HOME.get(name, 'errors')}" for name in headrace.__all__}
    assert reported == homes


def test_the_version_is_defined_once():
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{headrace.__version__}"' in text


def test_every_extra_that_errors_name_exists():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {
        keyword.value.value
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "extra" and isinstance(keyword.value, ast.Constant)
    }
    named |= {"images", "array-record"}  # which their modules hold in a constant
    assert len(named) > 5
    assert named <= project["optional-dependencies"].keys()
    # Wheels spell an underscore as a hyphen, and pip before 23.3 then ignores the name with an underscore.
    assert not [name for name in project["optional-dependencies"] if "_" in name]


# The laws of the house.

MOST_IN_A_FOLDER = 12
NAMED_BY_OTHERS = {"sagemaker", "containers/toolkit"}
"""Folders whose module names belong to another package."""
MOST_MODULES = 400
"""330 held everything before the viewer, conditions, everyday operations and Ray, which may add theirs."""
LEAST_LINES_PER_MODULE = 165
MOST_IN_OPENING = (20, 70)
"""Modules that a warm ``open`` of one TFRecord runs through, and how often it goes from one to another."""
MOST_IN_A_BATCH_OF_A_SOURCE = 8
MOST_IN_A_BATCH_OF_A_LOADER = 12
VERBS = {"read", "_read", "shed", "seed", "_seed", "need", "feed"}
"""Names that look like participles."""
ONLY_CONSTANTS = {"headrace._hooks"}
COMMANDS = {"headrace.cli.inspect.head"}
"""Functions named by the command that they are."""

NATIVE = Path(__file__).parent.parent / "native" / "core"
BINDINGS = NATIVE.parent / "bind"
PARTS = [path for path in MODULES if path.name != "__init__.py"]


def place(path):
    return path.parent.relative_to(SOURCE).as_posix()


def dotted(path):
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def larger_than(most, folders):
    counts = collections.Counter(folders)
    return {folder: count for folder, count in counts.items() if count > most}


def test_a_folder_has_few_modules():
    assert larger_than(MOST_IN_A_FOLDER, map(place, PARTS)).keys() <= NAMED_BY_OTHERS


def test_a_native_folder_has_few_parts():
    units = {path.with_suffix("") for folder in (NATIVE, BINDINGS) for path in folder.rglob("*.[ch]pp")}
    assert len(units) > 40
    assert larger_than(MOST_IN_A_FOLDER, (unit.parent for unit in units)) == {}


def test_every_header_of_the_core_has_a_test_of_its_name():
    headers = {path.relative_to(NATIVE).with_suffix("") for path in NATIVE.rglob("*.hpp")}
    tests = NATIVE.parent / "tests"
    tested = {path.parent.relative_to(tests) / path.stem[len("test_") :] for path in tests.rglob("test_*.cpp")}
    assert len(headers) > 40
    assert headers - tested == set()


BEYOND_THE_LIMITED_API = re.compile(
    r"structmember\.h|\bPy\w+DescrObject\b|\bPy[A-Z]\w+_(GET_[A-Z]+|SET_ITEM|AS_[A-Z]+)\b|->(tp|ob|d)_\w+"
)


def test_bindings_need_no_more_than_the_limited_api():
    """They are built for it from Python 3.12 on. Those for 3.11 may use all, so this looks for the usual names of the rest."""
    assert BEYOND_THE_LIMITED_API.search("reinterpret_cast<PyTypeObject*>(type)->tp_name")
    files = [path for path in BINDINGS.rglob("*.[ch]pp") if path.is_file()]
    found = {f"{path.name}: {used[0]}" for path in files for used in BEYOND_THE_LIMITED_API.finditer(path.read_text())}
    assert len(files) > 20
    assert found == set()


def test_modules_are_few_and_hold_an_idea_whole():
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in PARTS)
    assert len(PARTS) <= MOST_MODULES
    assert lines / len(PARTS) >= LEAST_LINES_PER_MODULE


def imported(path, names):
    """The modules of the package that one imports, also inside functions and for type checkers only."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module in names:
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & names
            yield from inner or {node.module}
        elif isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & names


def circles(graph):
    """Sets of nodes that reach each other: strongly connected components (Tarjan 1972) of more than one node."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            start = stack.index(node)
            found.append(set(stack[start:]))
            del stack[start:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return [circle for circle in found if len(circle) > 1]


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}) == [{"a", "b", "c"}]


def test_no_module_imports_itself_by_way_of_others():
    paths = {dotted(path): path for path in MODULES}
    names = set(paths) - {"headrace"}
    found = circles({name: set(imported(paths[name], names)) - {name} for name in names})
    assert found == []


def defined(path, kind):
    return [node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, kind)]


def test_a_class_name_means_one_thing():
    homes = collections.defaultdict(list)
    for path in PARTS:
        if place(path) not in NAMED_BY_OTHERS:
            for name in defined(path, ast.ClassDef):
                homes[name].append(dotted(path))
    assert len(homes) > 300
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_functions_are_named_by_verbs():
    found = [
        f"{dotted(path)}.{name}"
        for path in PARTS
        for name in defined(path, ast.FunctionDef)
        if re.fullmatch(r"_?[a-z]+(ed|wn|ept|ade|ead)", name) and name not in VERBS
    ]
    assert set(found) <= COMMANDS


def strings(path):
    return [
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_no_string_names_a_module_to_import():
    """Such a string could reach a layer above without an import that import-linter sees.

    ``hosting.stage`` names containers, which are below it, for the worker process that loads them.
    """
    found = [
        (dotted(path), text)
        for path in MODULES
        for text in strings(path)
        if re.fullmatch(r"headrace(\.\w+)+:\w+", text)
    ]
    assert {module for module, _ in found} <= {"headrace.hosting.stage"}


def test_no_module_only_repeats_names_of_others():
    own = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    empty = [
        dotted(path)
        for path in PARTS
        if not place(path).startswith(tuple(NAMED_BY_OTHERS))
        and path.name != "__main__.py"
        and not any(isinstance(node, own) for node in ast.parse(path.read_text(encoding="utf-8")).body)
    ]
    assert set(empty) <= ONLY_CONSTANTS


TRAVEL = """
import os, sys
import numpy as np
import headrace as hr

hr.write("one.tfrecord", {"x": np.arange(600, dtype=np.int64), "y": np.ones((600, 4), np.float32)})

def travel(work):
    seen, root = [], os.path.dirname(hr.__file__)
    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(root):
            seen.append(frame.f_code.co_filename)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(set(seen)), sum(a != b for a, b in zip(seen, seen[1:]))

hr.open("one.tfrecord").batch([0, 1])
print(*travel(lambda: hr.open("one.tfrecord")))
source = hr.open("one.tfrecord")
source.batch([3, 1])
print(*travel(lambda: source.batch([5, 2])))
batches = iter(hr.Loader(source, 8, threads=0))
next(batches), next(batches)
# The usual call, which is the shortest: how many batches are made at once follows the time that they take, so some calls do more,
# and on a busy machine most of them.
print(*min(travel(lambda: next(batches)) for _ in range(9)))
"""


def test_a_call_runs_through_few_modules(tmp_path):
    run = subprocess.run([sys.executable, "-c", TRAVEL], cwd=tmp_path, capture_output=True, text=True, check=True)
    opening, batch, following = (tuple(map(int, line.split())) for line in run.stdout.splitlines())
    assert opening[0] <= MOST_IN_OPENING[0]
    assert opening[1] <= MOST_IN_OPENING[1]
    assert batch[0] <= MOST_IN_A_BATCH_OF_A_SOURCE
    assert following[0] <= MOST_IN_A_BATCH_OF_A_LOADER


def test_no_old_name_of_the_project_is_left():
    """The first name is that of another project on PyPI."""
    old = "pen" + "stock"
    root = Path(__file__).parent.parent
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )
    names = [name for name in listed if name and not name.startswith("tests/golden/")]
    if not names:
        pytest.skip("not in a git checkout")
    found = [
        name
        for name in names
        if old in name.lower() or old in (root / name).read_bytes().decode("utf-8", "replace").lower()
    ]
    assert found == []
