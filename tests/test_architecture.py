"""What import-linter cannot see: the compiled module, the front door, the size of files."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import headrace

SOURCE = Path(headrace.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
NATIVE_LAYERS = {"io", "formats", "codecs", "sampling", "loading"}
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
]


def imports(path):
    """Names that a module imports, as ``package`` or ``package.name``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_who_imports_the_native_module_and_the_root(path):
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


def test_the_front_door_is_what_it_says():
    public = {
        name
        for name in dir(headrace)
        if not name.startswith("_") and not isinstance(getattr(headrace, name), ModuleType)
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
    *(name for name in OPTIONAL if name not in ("rich", "typer")),  # which every installation has
    *("pytest", "hypothesis", "zstandard", "brotli", "joblib", "httptools", "uvloop", "jsonpath_ng", "datasets", "ray"),
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
assert {needing!r} <= set(names) and len(names) > 400
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


def test_the_front_door_leads_to_its_packages_only():
    assert headrace.testing.__name__ == "headrace.testing"
    for name in ("nothing", "re", "_registries"):
        with pytest.raises(AttributeError, match=name):
            getattr(headrace, name)


def test_type_checkers_and_python_find_the_same_things_behind_the_front_door():
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    told = {
        alias.name: node.module
        for branch in tree.body
        if isinstance(branch, ast.If)
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {name: f"headrace.{headrace._HOME.get(name, 'errors')}" for name in headrace.__all__}
    assert told == homes


def test_the_version_is_said_once():
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
    # Installers write an underscore as a hyphen into a wheel, and pip before 23.3 then passes over the name with an underscore.
    assert not [name for name in project["optional-dependencies"] if "_" in name]
