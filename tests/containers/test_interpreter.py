"""Scripts with requirements, or with another interpreter."""

import base64
import hashlib
import subprocess
import sys
import zipfile

import pytest
from tests.containers.conftest import DOUBLE

from headrace.containers.script import ScriptContainer
from headrace.containers.training import interpreter as of_interpreter
from headrace.containers.training.interpreter import Installation, interpreter, prepare
from headrace.errors import JobFailed


def write_wheel(folder, name, version, code=""):
    """A package of one module, written without any tool."""
    files = {
        f"{name}.py": f"VERSION = '{version}'\n{code}",
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{name}-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text)}")
    files[f"{name}-{version}.dist-info/RECORD"] = "\n".join([*lines, f"{name}-{version}.dist-info/RECORD,,", ""])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in files.items():
            archive.writestr(member, text)
    return path


@pytest.fixture
def requiring(write_script):
    """A script with a requirement, in its folder."""
    path = write_script("import only_here\n" + DOUBLE.replace("\n    ", "\n"))
    wheel = write_wheel(path.parent, "only_here", "1.5")
    (path.parent / "requirements.txt").write_text(f"# what it needs\n./{wheel.name}\n")
    return path


def test_requirements_are_installed_once_into_an_environment_of_their_own(requiring, tmp_path):
    container = ScriptContainer(entry_point=requiring.name, source_dir=requiring.parent)
    lines = []
    python = container.interpreter(log=lines.append)
    assert any("Successfully installed only_here-1.5" in line.replace("-here", "_here") for line in lines)
    code = "import only_here, numpy, sklearn; print(only_here.VERSION)"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "1.5\n"
    assert container.interpreter(log=pytest.fail) == python  # kept
    with pytest.raises(JobFailed, match="No module named 'only_here'.*requirements.txt"):
        container.handler(tmp_path)


def test_a_process_with_that_interpreter_loads_the_script(requiring, tmp_path):
    container = ScriptContainer(entry_point=requiring.name, source_dir=requiring.parent)
    code = (
        "import sys\n"
        "from headrace.containers.script import ScriptContainer\n"
        "from headrace.contracts.serving import Request\n"
        "handler = ScriptContainer(entry_point=sys.argv[1], source_dir=sys.argv[2]).handler(sys.argv[3])\n"
        "print(handler(Request(body=b'1,2', content_type='text/csv')).body)\n"
    )
    command = [container.interpreter(log=lambda line: None), "-c", code, requiring.name, requiring.parent, tmp_path]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "b'[6.0]'\n"


def test_files_that_requirements_name_count(requiring):
    folder = requiring.parent
    (folder / "requirements.txt").rename(folder / "base.txt")
    (folder / "requirements.txt").write_text("-r base.txt\n--constraint=limits.txt\n")
    (folder / "limits.txt").write_text("only_here<2 -r requirements.txt\n")
    (folder / "far").write_text("is not named\n")
    wanted = Installation(requirements=folder / "requirements.txt")
    before = wanted.content()
    for name in ("base.txt", "limits.txt", "only_here-1.5-py3-none-any.whl"):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content + b"\n")
        assert wanted.content() != before, name
        (folder / name).write_bytes(content)
    (folder / "far").write_text("is still not named\n")
    assert wanted.content() == before


def test_nothing_to_install(write_script):
    assert ScriptContainer(entry_point=write_script()).interpreter() is None
    assert interpreter(None) == sys.executable
    folder = write_script().parent
    (folder / "requirements.txt").write_text("\n# nothing\n")
    assert ScriptContainer(entry_point="serve.py", source_dir=folder).interpreter() is None
    (folder / "requirements.txt").write_text("something\n")  # for a single file, its neighbours are ignored
    assert ScriptContainer(entry_point=folder / "serve.py").interpreter() is None


def test_a_failed_installation_is_one_line(tmp_path):
    path = tmp_path / "requirements.txt"
    path.write_text("./nothing-1.0-py3-none-any.whl\n")
    with pytest.raises(
        JobFailed, match=r"installing requirements.txt failed with exit code 1: ERROR: .*nothing-1\.0"
    ) as error:
        prepare(None, Installation(requirements=path), log=lambda line: None)
    assert "\n" not in str(error.value)


def test_no_interpreter():
    with pytest.raises(JobFailed, match="no interpreter"):
        interpreter("python0.1")


def test_a_program_that_is_not_python(tmp_path):
    path = tmp_path / "requirements.txt"
    path.write_text("x\n")
    with pytest.raises(JobFailed, match="does not work as a Python interpreter"):
        prepare("false", Installation(requirements=path), log=pytest.fail)


@pytest.mark.parametrize(
    ("there", "options"),
    [
        ((), []),
        (("setuptools",), []),  # the version of Python 3.11, which cannot build a wheel
        (("setuptools", "setuptools, wheel"), ["--no-build-isolation"]),
        (("setuptools", "setuptools.command.bdist_wheel"), ["--no-build-isolation"]),
    ],
)
def test_a_package_is_built_in_isolation_where_nothing_here_can(monkeypatch, there, options):
    monkeypatch.setattr(of_interpreter, "_has", lambda _, module: module in there)
    assert of_interpreter._isolation("python") == options


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["WARNING: old", "ERROR: no such package", "ERROR: none"], "ERROR: no such package"),
        (
            ["  error: subprocess-exited-with-error", "  x did not run", "      Traceback", "      NameError: name 'x'",
             "      [end of output]", "  note: not pip", "error: metadata-generation-failed"],
            "NameError: name 'x'",
        ),
        (["killed"], "killed"),
        ([], "no output"),
    ],
)  # fmt: skip
def test_errors_of_pip(lines, expected):
    assert of_interpreter._find_error(lines) == expected
