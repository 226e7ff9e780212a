"""Every way to name files."""

import glob
import os
from pathlib import Path

import pytest

from headrace.errors import NoFiles, UnsupportedData
from headrace.io.names import matches_glob
from headrace.io.paths import (
    TEMPORARY_SUFFIX,
    absolute,
    expand,
    expand_home,
    list_files_below,
    natural_key,
    shard_paths,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def shards(stem, count, end=""):
    return [f"{stem}-{number:05d}-of-{count:05d}{end}" for number in range(count)]


def test_a_file_keeps_its_name(folder):
    make(folder, "a.tfrecord")
    assert expand("a.tfrecord") == ["a.tfrecord"]
    assert expand(Path("a.tfrecord")) == ["a.tfrecord"]
    assert expand(folder / "a.tfrecord") == [str(folder / "a.tfrecord")]
    assert expand(f"file://{folder}/a.tfrecord") == [f"{folder}/a.tfrecord"]


def test_home_is_expanded(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    make(folder, "a.npy")
    assert expand("~/a.npy") == [str(folder / "a.npy")]


def test_a_list_joins_in_its_own_order(folder):
    make(folder, "a", "b", "c")
    assert expand(["c", Path("a"), "b"]) == ["c", "a", "b"]
    assert expand(name for name in ("b", "a")) == ["b", "a"]


def test_a_glob_sorts_by_number(folder):
    make(folder, "part-10", "part-9", "part-1", "other", "part-2.tmp", "part-3" + TEMPORARY_SUFFIX)
    assert expand("part-*") == ["part-1", "part-9", "part-10"]


def test_a_glob_reaches_into_folders(folder):
    make(folder, "x/1.npy", "y/2.npy", "y/sub.npy/3.npy")
    assert expand("*/*.npy") == ["x/1.npy", "y/2.npy"]


def test_two_stars_reach_folders_at_any_depth(folder):
    make(
        folder, "x0", "d/x1", "d/a/x2", "d/a/b/x3", "d/.git/x4", "d/a/.x5", "e/x6", "d/a/b/x7.tmp", "d/b/y", "d/[1]/x8"
    )
    assert expand("d/**/x*") == ["d/[1]/x8", "d/a/b/x3", "d/a/x2", "d/x1"]
    for pattern in (
        "**/x*",
        "./**/x*",
        f"{folder}/**/x*",
        "**",
        "d/**",
        "**/*",
        "**/b/*",
        "*/**/b/**/x*",
        "d**/x*",
        "d/**/x3",
        "**/**/x*",
    ):
        python = glob.glob(pattern, recursive=True)
        assert expand(pattern) == sorted({p for p in python if os.path.isfile(p) and p[-4:] != ".tmp"}, key=natural_key)
    with pytest.raises(NoFiles, match="files that match, found none"):
        expand("d/**/nothing*")


def test_two_stars_follow_links_but_not_in_circles(folder):
    make(folder, "d/a/x", "e/y")
    for link, target in (("d/up", ".."), ("d/a/self", "."), ("d/e", "../e"), ("e/d", "../d")):
        (folder / link).symlink_to(target)
    assert expand("d/**") == ["d/a/x", "d/e/y"]


def test_a_glob_matches_no_pipe(folder):
    make(folder, "a.csv", "d/a.csv")
    os.mkfifo("b.csv")
    os.mkfifo("d/b.csv")
    assert expand("*.csv") == ["a.csv"]
    assert expand("**/*.csv") == ["a.csv", "d/a.csv"]


def test_a_glob_without_matches_says_why(folder):
    make(folder, "d/[2024] run/x.npy", "d/y.npy.part")
    with pytest.raises(NoFiles, match=r"pass 'd/\[\[\]2024\] run/\*\.npy': see glob\.escape"):
        expand("d/[2024] run/*.npy")
    assert expand("d/[[]2024] run/*.npy") == ["d/[2024] run/x.npy"]
    with pytest.raises(NoFiles, match=r"found only temporary ones \(y\.npy\.part\)"):
        expand("d/*.part")
    with pytest.raises(NoFiles, match="holds") as raised:
        expand("d/*.npy")
    assert "Did you mean" not in str(raised.value)


def test_a_folder_holds_its_record_files_only(folder):
    make(
        folder,
        "d/part-2",
        "d/part-10",
        "d/.hidden",
        "d/_SUCCESS",
        "d/incomplete.part-3",
        "d/part-4.tmp",
        "d/sub/part-9",
    )
    make(folder, "d/features.json", "d/part-2.idx", "d/README.md", "d/notes.txt", "d/x~", "d/part-5" + TEMPORARY_SUFFIX)
    assert expand("d") == ["d/part-2", "d/part-10"]


@pytest.mark.parametrize(
    ("names", "records"),
    [
        (["a.jsonl", "b.jsonl"], ["a.jsonl", "b.jsonl"]),
        (
            ["a.jsonl", "b.JSONL", "c.jsonl.gz", "d.ndjson", "e.jsonlines.3", "f.jsonl-00000-of-00001", "notes.json"],
            ["a.jsonl", "b.JSONL", "c.jsonl.gz", "d.ndjson", "e.jsonlines.3", "f.jsonl-00000-of-00001"],
        ),
        (["a.jsonl", "_metadata.jsonl", ".b.jsonl", "c.jsonl.tmp"], ["a.jsonl"]),
        (["metadata.jsonl", "1.png", "2.png"], ["1.png", "2.png"]),
        (["a.jsonl", "b.jsonl.gz", "c.parquet"], ["b.jsonl.gz", "c.parquet"]),
        (["a.jsonl", "b.jsonl.parquet"], ["b.jsonl.parquet"]),
        (["p-0.json", "p-1.json", "_SUCCESS", ".p-0.json.crc", "README.md"], ["p-0.json", "p-1.json"]),
        (["p-0.json", "p-1.json.gz", "x.JSON"], ["p-0.json", "p-1.json.gz", "x.JSON"]),
        (["a.jsonl", "b.json.gz", "c.json"], ["a.jsonl", "b.json.gz", "c.json"]),
        (["a.json", "a.jsonl"], ["a.jsonl"]),
        (["a.json", "b.parquet"], ["b.parquet"]),
        (["part-0.txt", "part-1.txt.gz", "README.txt"], ["part-0.txt", "part-1.txt.gz"]),
        (
            ["b.txt.gz", "part-0.json", "part-1.json.gz", "x.parquet"],
            ["b.txt.gz", "part-0.json", "part-1.json.gz", "x.parquet"],
        ),
    ],
)
def test_notes_that_hold_records(folder, names, records):
    make(folder, *(f"d/{name}" for name in names))
    assert expand("d") == [f"d/{name}" for name in records]


def test_a_folder_with_a_part_of_a_set_of_json_lines(folder):
    make(folder, "d/x-00000-of-00002.jsonl")
    with pytest.raises(NoFiles, match="all 2 shards"):
        expand("d")


@pytest.mark.parametrize("name", ["x@3", "x@*", "*.x", "y"])
def test_a_folder_that_cannot_be_listed_now_is_not_empty(folder, monkeypatch, name):
    make(folder, *shards("d/x", 3))

    def fail(path):
        raise OSError(24, "Too many open files", path)

    monkeypatch.setattr("os.listdir", fail)
    with pytest.raises(OSError, match="Too many open files"):
        expand(f"d/{name}")
    monkeypatch.undo()
    with pytest.raises(NoFiles, match="found 0 of them"):
        expand(f"{folder}/e/x@3")


@pytest.mark.parametrize("name", ["x@4", "x@*", "x-?????-of-00004", "x-*-of-00004"])
def test_a_set_of_shards_has_many_names(folder, name):
    make(folder, *shards("x", 4), *shards("other", 2), "x-00000-of-00004.json")
    assert expand(name) == shards("x", 4)


def test_a_set_may_have_an_ending(folder):
    make(folder, *shards("d/x", 3, ".tfrecord"))
    for name in ("d/x@3.tfrecord", "d/x@*.tfrecord", "d/x-?????-of-00003.tfrecord"):
        assert expand(name) == shards("d/x", 3, ".tfrecord")


def test_more_shards_than_five_digits_can_count(folder):
    make(folder, *(f"x-{number:06d}-of-000002" for number in range(2)))
    assert expand("x-000000-of-000002") == ["x-000000-of-000002"]
    assert expand("x-??????-of-000002") == ["x-000000-of-000002", "x-000001-of-000002"]
    assert expand("x@*") == ["x-000000-of-000002", "x-000001-of-000002"]


def test_the_name_of_one_shard_is_that_one_file(folder):
    make(folder, *shards("x", 4), *shards("y", 3, ".npy"))
    for name in (*shards("x", 4), *shards("y", 3, ".npy")):
        assert expand(name) == [name]
        assert expand(Path(name)) == [name]
        assert expand([name]) == [name]
        assert expand(f"file://{folder}/{name}") == [f"{folder}/{name}"]


@pytest.mark.parametrize("given", ["d/x-00001-of-00004.npy", ["d/x-00001-of-00004.npy"]])
def test_a_shard_that_is_not_there_mentions_its_set(folder, given):
    make(folder, "d/x-00000-of-00004.npy")
    with pytest.raises(
        NoFiles, match=r"x-00001-of-00004.*x@4\.npy or x@\*\.npy names the whole set.* holds x-00000-of-00004"
    ):
        expand(given)


def test_in_a_list_a_set_means_its_shards(folder):
    make(folder, *shards("x", 4))
    assert expand(["x@4"]) == shards("x", 4)


@pytest.mark.parametrize("name", ["x@4", "x-?????-of-00004", "x@*", "."])
def test_a_missing_shard_is_named(folder, name):
    make(folder, *(shard for shard in shards("x", 4) if "00002-of" not in shard))
    with pytest.raises(NoFiles, match="x-00002-of-00004") as raised:
        expand(name)
    assert "all 4 shards" in str(raised.value)
    assert isinstance(raised.value, FileNotFoundError)


def test_many_missing_shards_are_counted(folder):
    with pytest.raises(NoFiles, match=r"x-00000-of-01000, .* and 995 more"):
        shard_paths("x-", 1000)


@pytest.mark.parametrize("name", ["log@1732851234.csv", "log@17328512345678.csv", "log-?????-of-1732851234.csv"])
def test_a_number_in_a_mistyped_name_costs_nothing(folder, name):
    make(folder, "log@1732851235.csv", "lag-00000-of-1732851234.csv")
    with pytest.raises(
        NoFiles, match="such file, or the .* shards|found 0 of them, without .* and 1732851229 more"
    ) as raised:
        expand(name)
    assert "log@1732851235.csv" in str(raised.value) or "?" in name
    make(folder, name.replace("?????", "0000000003").replace("@", "-00007-of-"))
    with pytest.raises(NoFiles, match="found 1 of them, without log-0000.* and .* more"):
        expand(name)


def test_two_sets_of_one_name_are_not_guessed(folder):
    make(folder, *shards("x", 2), *shards("x", 3))
    with pytest.raises(NoFiles, match="sets of 00002 and 00003"):
        expand("x@*")


@pytest.mark.parametrize("name", ["odd[1].npy", "odd*.npy", "x@8", "a?b", "x-00000-of-00000?"])
def test_the_literal_file_wins_over_the_pattern(folder, name):
    make(folder, name, "odd1.npy", "odd2.npy")
    assert expand(name) == [name]


def test_a_missing_file_lists_what_exists(folder):
    make(folder, "data/train.npy")
    with pytest.raises(NoFiles, match=r"data holds train\.npy"):
        expand("data/test.npy")
    with pytest.raises(NoFiles, match=r"data holds train\.npy"):
        expand("data/*.tfrecord")
    with pytest.raises(NoFiles, match="holds data"):
        expand("date/train.npy")
    with pytest.raises(NoFiles, match="a set of none"):
        expand("x@0")
    with pytest.raises(NoFiles, match="empty list"):
        expand([])
    (folder / "nothing").mkdir()
    with pytest.raises(NoFiles, match="record files in this folder"):
        expand("nothing")


@pytest.mark.parametrize("begin", ["file://", "FILE://", "file://localhost"])
def test_urls_of_files(tmp_path, begin):
    (tmp_path / "x.tfrecord").write_bytes(b"")
    assert expand(f"{begin}{tmp_path}/x.tfrecord") == [str(tmp_path / "x.tfrecord")]


@pytest.mark.parametrize("url", ["ftp://host/key", "hdfs://b/k"])
def test_object_stores_are_refused_with_a_message(url):
    with pytest.raises(UnsupportedData, match=url.partition("://")[0]):
        expand(url)


def test_values_that_are_not_paths():
    with pytest.raises(TypeError, match=r"os\.PathLike"):
        expand([b"bytes"])


def test_natural_order():
    assert sorted(["a10b2", "a9", "a10b10", "a"], key=natural_key) == ["a", "a9", "a10b2", "a10b10"]
    assert natural_key("x007-of-12.y")[:5] == ("x", 7, "-of-", 12, ".y")
    for names in (["p-1", "p-01", "p-1b"], ["p-01", "p-1b", "p-1"]):  # in whatever order a file system lists them
        assert sorted(names, key=natural_key) == ["p-01", "p-1", "p-1b"]


def test_absolute_survives_a_change_of_folder(folder, tmp_path_factory, monkeypatch):
    path = absolute("x")
    monkeypatch.chdir(tmp_path_factory.mktemp("other"))
    assert path == str(folder / "x")


def test_files_behind_links_but_not_in_circles(tmp_path):
    for name in ("a/b/x", "c/y"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"")
    for link, target in (
        ("a/c", "../c"),
        ("c/a", "../a"),
        ("a/up", ".."),
        ("a/b/self", "."),
        ("a/file", "../c/y"),
        ("a/no", "z"),
    ):
        (tmp_path / link).symlink_to(target)
    names = sorted(path.relative_to(tmp_path).as_posix() for path in list_files_below(tmp_path / "a"))
    assert names == ["a/b/x", "a/c/y", "a/file"]
    assert list_files_below(tmp_path / "a" / "b" / "x") == list_files_below(tmp_path / "z") == []


def test_an_unreadable_folder_is_not_reported_as_missing(tmp_path):
    (tmp_path / "round").symlink_to(tmp_path / "round")  # a folder without permission would not stop root
    with pytest.raises(OSError, match="symbolic links"):
        expand(str(tmp_path / "round" / "x.tfrecord"))


def test_a_shard_that_is_a_link_to_nowhere_is_expanded_like_others(tmp_path):
    """Reading it fails; the folder must not look whole without it."""
    (tmp_path / "a.tfrecord").write_bytes(b"")
    os.symlink("/not/fetched", tmp_path / "b.tfrecord")
    assert expand(tmp_path) == [str(tmp_path / "a.tfrecord"), str(tmp_path / "b.tfrecord")]


def test_the_name_that_may_be_meant(tmp_path):
    for number in range(30):
        (tmp_path / f"a{number}.tfrecord").touch()
    (tmp_path / "p.parquet").touch()
    with pytest.raises(NoFiles, match=r"Did you mean 'p\.parquet'\?"):
        expand(tmp_path / "p.parqet")


def test_a_path_of_a_url_has_lost_a_slash(folder):
    with pytest.raises(NoFiles, match=r"A Path takes a slash from a URL: pass the text 's3://bucket/x\.npy'\."):
        expand(Path("s3://bucket/x.npy"))


def test_urls_of_files_with_escapes(folder):
    make(folder, "my data/ü 1.csv", "100%25.csv")
    assert expand((folder / "my data/ü 1.csv").as_uri()) == [str(folder / "my data/ü 1.csv")]
    assert expand(f"file://{folder}/100%25.csv") == [f"{folder}/100%25.csv"]
    assert expand_home(f"file://{folder}/my%20data/new.csv") == f"{folder}/my data/new.csv"


@pytest.mark.parametrize(
    ("url", "here"), [("s3a://b/k", "s3://b/k"), ("gcs://b/k", "gs://b/k"), ("abfs://c@account/k", "az://c/k")]
)
def test_the_schemes_of_other_libraries(url, here):
    with pytest.raises(UnsupportedData, match=f"Here it is {here}"):
        expand(url)


def test_many_depths_do_not_multiply():
    """By trying all ways to match them, this one would take years."""
    assert not matches_glob(["a"] * 60, ["**", "a"] * 25 + ["b"])
    assert matches_glob(["a"] * 60 + ["b"], ["**", "a"] * 25 + ["b"])
