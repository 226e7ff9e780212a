"""Every Python block of the README and the pages runs, and prints the output shown."""

from __future__ import annotations

import contextlib
import inspect
import io
import pydoc
import re
import subprocess
import sys

import pytest
from tests.docs.pages import PAGES, ROOT, anchor, blocks, headings, links

import headrace as hr

BY_NAME = {page.name: page for page in PAGES}


NEEDED = {"jax.md": "jax", "pytorch.md": "torch", "distributed.md": "ray"}
"""Modules that a page needs beyond the extra ``test``."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=getattr(pytest.mark, NEEDED[name]) if name in NEEDED else ()) for name in BY_NAME],
)
def test_page_runs(name, prepared_files, request):
    """The blocks of a page are one session, from top to bottom."""
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    if NEEDED.get(name) == "ray":
        request.getfixturevalue("local_ray").data.DataContext.get_current().enable_progress_bars = False
    names: dict[str, object] = {"__name__": "page", **prepared_files}
    for block in blocks(BY_NAME[name].read_text(encoding="utf-8")):
        if block.language != "python" or block.reason is not None:
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * block.line + block.code, name, "exec"), names)
        if block.printed is not None:
            assert printed.getvalue() == block.printed, f"{name}, line {block.line}"


@pytest.mark.parametrize("name", BY_NAME)
def test_blocks_that_do_not_run_say_why(name):
    for block in blocks(BY_NAME[name].read_text(encoding="utf-8")):
        assert block.reason != "", f"{name}, line {block.line}"


@pytest.mark.parametrize("name", BY_NAME)
def test_links_lead_somewhere(name):
    page = BY_NAME[name]
    for link in links(page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        path, _, wanted = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if wanted:
            assert wanted in map(anchor, headings(target.read_text(encoding="utf-8"))), link


def test_every_public_name_has_an_entry():
    entries = headings((ROOT / "docs" / "api.md").read_text(encoding="utf-8"))
    for name in hr.__all__:
        assert f"`{name}`" in entries, name
    named = {entry.strip("`") for entry in entries if entry.startswith("`")}
    assert named == set(hr.__all__)


def test_signatures_on_the_page_are_those_of_the_code():
    """The first code block below an entry is its signature: it names every parameter, in order."""
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in (
        "records",
        "open",
        "write",
        "write_records",
        "convert",
        "verify",
        "Loader",
        "Writer",
        "Mixture",
        "Feature",
    ):
        section = text.split(f"`{name}`\n", 1)[1].split("\n#", 1)[0]
        shown = next(block.code for block in blocks(section))
        arguments = shown.partition("(")[2].rpartition(")")[0]
        named = [argument.partition("=")[0].strip() for argument in arguments.replace("*,", "").split(",")]
        assert named == [
            parameter for parameter in inspect.signature(getattr(hr, name)).parameters if parameter != "self"
        ]


def test_every_error_has_a_heading():
    found = headings((ROOT / "docs" / "errors.md").read_text(encoding="utf-8"))
    errors = [
        name
        for name in hr.__all__
        if isinstance(getattr(hr, name), type) and issubclass(getattr(hr, name), hr.HeadraceError)
    ]
    assert len(errors) == 17
    assert set(errors) <= set(found)


def test_the_first_page_leads_to_every_other():
    found = links(BY_NAME["index.md"].read_text(encoding="utf-8"))
    assert sorted(found) == sorted(
        {*BY_NAME} - {"index.md", "README.md", "SECURITY.md"} | {link for link in found if link not in BY_NAME}
    )


def test_every_environment_variable_is_documented():
    """Two are not settings: Headrace passes them to its child processes."""
    documented = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    read = set(re.findall(r"\bHEADRACE_[A-Z_]+\b", code)) - {"HEADRACE_PARENT", "HEADRACE_STARTED_BY"}
    assert read
    assert {name for name in read if name not in documented} == set()


def test_help_on_the_page_is_that_of_the_command():
    """``tools/cli_page.py`` regenerates the page."""
    subprocess.run([sys.executable, ROOT / "tools" / "cli_page.py", "--check"], check=True, cwd=ROOT)


FOLDER_READMES = [ROOT / "ARCHITECTURE.md", *(ROOT / "src").rglob("README.md"), *(ROOT / "native").rglob("README.md")]


@pytest.mark.parametrize("page", FOLDER_READMES, ids=lambda page: str(page.relative_to(ROOT)))
def test_readmes_of_folders_name_files_that_exist(page):
    """Names in backquotes that end like a source file, relative to the folder, the package or the repository."""
    text = page.read_text(encoding="utf-8")
    bases = [page.parent, ROOT, ROOT / "src" / "headrace", ROOT / "native"]
    for name in re.findall(r"`([\w/]+\.(?:py|hpp|cpp|md))`", text):
        assert any((base / name).exists() for base in bases) or any(page.parent.rglob(name)), name
    for link in links(text):
        assert "://" in link or (page.parent / link.partition("#")[0]).exists(), link


def test_modules_named_in_the_api_tables_have_those_names():
    for name in re.findall(r"`((?:containers|jobs|contracts)\.[\w.]+)", (ROOT / "docs" / "api.md").read_text("utf-8")):
        assert pydoc.locate(f"headrace.{name}") is not None, name


def test_names_in_the_table_of_endpoints_exist():
    section = (ROOT / "docs" / "api.md").read_text("utf-8").split("\n## Endpoints\n")[1].split("\n## ")[0]
    cells = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    names = [name for cell in cells for name in re.findall(r"`(\w+)", cell)]
    assert {"Endpoint", "serve"} <= set(names)
    assert set(names) <= set(hr.hosting.__all__)
