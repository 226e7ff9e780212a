"""The index: equal to the plain reference, cached, never used when stale."""

import gzip
import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import tfrecord as reference

import headrace as hr
from headrace.errors import CorruptFile, CorruptRecord, NoFiles, Where
from headrace.formats.csv.format import CsvRecords
from headrace.formats.csv.framing import CsvFraming
from headrace.formats.index import build as index_build
from headrace.formats.index import index as index_module
from headrace.formats.index import places as index_places
from headrace.formats.index.build import build_index, record_index
from headrace.formats.index.index import FileIndex, RecordIndex, index_path, load_index, save_index
from headrace.formats.tfrecord.format import TFRecordFraming, TFRecordRecords
from headrace.io.cache.folder import cache_folder
from headrace.io.local.fileset import FileSet
from headrace.io.local.signatures import Signature, Versions


def write(path, payloads):
    path.write_bytes(b"".join(map(reference.framed, payloads)))
    return str(path)


def payloads_of(count, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.bytes(int(size)) for size in rng.integers(0, 60, count)]


def kept():
    return sorted(os.listdir(cache_folder("index")))


@pytest.fixture
def scans(monkeypatch):
    """The files that are scanned, by name."""
    seen = []
    scan = index_build._Job._scan_file

    def counted(self):
        seen.append(os.path.basename(self._files.paths[self._number]))
        return scan(self)

    monkeypatch.setattr(index_build._Job, "_scan_file", counted)
    return seen


def length(*paths, **options):
    return len(TFRecordRecords([str(path) for path in paths], **options))


@given(st.lists(st.binary(max_size=50), max_size=40), st.sampled_from([30, 64, 150, 1000]))
def test_pieces_of_a_file_join_to_what_the_reference_finds(tmp_path_factory, payloads, piece_bytes):
    path = tmp_path_factory.mktemp("pieces") / "x"
    # Payloads that contain whole records must not be taken for records if a piece starts inside one.
    nested = [payload + b"".join(map(reference.framed, payloads[:2])) for payload in payloads]
    write(path, nested)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_build, "PIECE_BYTES", piece_bytes)
        patch.setattr(index_build, "STEP_BYTES", 100)
        index = build_index(TFRecordFraming(), FileSet([str(path)]))
    assert index.starts.tolist() == reference.read(path.read_bytes())[0]


@pytest.mark.parametrize("damaged", [0, 7, 49])
def test_pieces_report_damage_with_its_record(tmp_path, monkeypatch, damaged):
    path = tmp_path / "x"
    write(path, payloads_of(50))
    content = bytearray(path.read_bytes())
    start = reference.read(content)[0][damaged]
    content[start] ^= 1
    path.write_bytes(content)
    monkeypatch.setattr(index_build, "PIECE_BYTES", 200)
    with pytest.raises(CorruptRecord, match="length checksum") as raised:
        build_index(TFRecordFraming(), FileSet([str(path)]))
    assert raised.value.where == Where(path=str(path), record=damaged, offset=start)


def test_it_is_built_once(tmp_path, scans):
    path = tmp_path / "x"
    write(path, payloads_of(10))
    assert [length(path), length(path)] == [10, 10]
    assert scans == ["x"]
    assert len(kept()) == 1
    assert os.listdir(tmp_path) == ["x"], "never beside the data"


def test_only_what_changed_is_scanned_again(tmp_path, scans):
    paths = [tmp_path / f"{number:02d}" for number in range(20)]
    for number, path in enumerate(paths):
        write(path, payloads_of(number))
    assert length(*paths) == sum(range(20))
    scans.clear()
    write(paths[7], payloads_of(100))
    assert length(*paths) == sum(range(20)) + 93
    assert scans == ["07"]
    everything = [payload for number in range(20) for payload in payloads_of(100 if number == 7 else number)]
    assert TFRecordRecords(list(map(str, paths))).spans(np.arange(len(everything))).to_bytes() == everything


@pytest.mark.parametrize("most_printed", [1024, 0])
def test_a_change_that_only_the_content_shows(tmp_path, monkeypatch, most_printed):
    monkeypatch.setattr(index_build, "MOST_PRINTED", most_printed)
    path = tmp_path / "x"
    write(path, [b"a" * 30, b"b" * 10])
    times = path.stat()
    assert length(path) == 2
    write(path, [b"a" * 56])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == times.st_size
    assert length(path) == 1


def test_another_order_or_option_is_another_index(tmp_path):
    for name in "ab":
        write(tmp_path / name, payloads_of(3, ord(name)))
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    assert [bytes(view) for view in TFRecordRecords([b, a])] == payloads_of(3, ord("b")) + payloads_of(3, ord("a"))
    for paths, options in (([a, b], {}), ([b, a], {}), ([a], {}), ([a, b], {"on_corrupt": "skip"})):
        length(*paths, **options)
    assert len(kept()) == 4


@pytest.mark.parametrize("damage", ["empty", "cut", "header", "description", "starts", "garbage", "folder"])
def test_a_damaged_index_is_made_again(tmp_path, scans, damage):
    path = tmp_path / "x"
    payloads = payloads_of(30)
    write(path, payloads)
    length(path)
    stored = cache_folder("index") / kept()[0]
    content = bytearray(stored.read_bytes())
    if damage == "empty":
        content.clear()
    elif damage == "cut":
        del content[-8:]
    elif damage == "garbage":
        content[:] = b"not an index at all, but something longer than its header would be"
    else:
        content[{"header": 9, "description": 40, "starts": -5}.get(damage, 0)] ^= 0x55
    if damage == "folder":
        stored.unlink()
        stored.mkdir()
    else:
        stored.write_bytes(content)
    records = TFRecordRecords([str(path)])
    assert [bytes(records[index]) for index in range(len(records))] == payloads
    assert scans == ["x", "x"]
    if damage == "folder":  # It stays, so that each process scans.
        return
    assert length(path) == 30
    assert scans == ["x", "x"], "the new one is kept"


def test_every_byte_of_the_index_counts(tmp_path):
    index = RecordIndex([FileIndex("a", Signature(50, 1, 2), 2, (1,), 10)], np.array([0, 20]))
    path = tmp_path / "i"
    save_index(index, path)
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :])
        found = load_index(path)
        padding = found is not None
        assert not padding or (found.files, found.starts.tolist()) == (index.files, [0, 20])
        path.write_bytes(content[:at])
        assert load_index(path) is None


def test_round_trip(tmp_path):
    files = [
        FileIndex("a/ü\udcff", Signature(100, 1, 2), 2),
        FileIndex("b", Signature(0, 1), 0),
        FileIndex("c", Signature(9, 8, 7), 1, (0, 1), 77),
    ]
    index = RecordIndex(files, np.array([0, 20, 5]))
    save_index(index, tmp_path / "i")
    again = load_index(tmp_path / "i")
    assert again.files == index.files
    assert again.starts.tolist() == [0, 20, 5]
    assert again.firsts.tolist() == [0, 2, 2, 3]
    assert load_index(tmp_path / "nowhere") is None
    with pytest.raises(ValueError, match="2 starts for 3"):
        RecordIndex(files, np.array([0, 20]))


def test_an_empty_index(tmp_path):
    save_index(RecordIndex([FileIndex("a", Signature(0, 1), 0)], np.zeros(0, np.int64)), tmp_path / "i")
    assert len(load_index(tmp_path / "i")) == 0


def test_locating():
    files = [FileIndex(name, Signature(0, 0), count) for name, count in (("a", 2), ("empty", 0), ("b", 3))]
    index = RecordIndex(files, np.array([0, 10, 0, 20, 40]))
    which, offsets = index.locate(np.array([4, 0, 2, 1]))
    assert (which.tolist(), offsets.tolist()) == ([2, 0, 2, 0], [40, 0, 0, 10])
    assert [index.where(number).path for number in range(5)] == ["a", "a", "b", "b", "b"]
    assert index.where(3) == Where(path="b", record=1, offset=20)
    single = RecordIndex(files[:1], np.array([0, 10]))
    assert single.locate(np.array([1]))[0] is None


def test_damaged_stretches_have_numbers_too():
    index = RecordIndex([FileIndex("a", Signature(0, 0), 4, (0, 2, 2, 4))], np.array([10, 20, 50, 60]))
    assert [index.where(number).record for number in range(4)] == [1, 2, 5, 6]


def test_nowhere_to_keep_it(tmp_path, monkeypatch):
    path = tmp_path / "x"
    write(path, payloads_of(5))
    monkeypatch.setattr(
        "headrace.formats.index.index.AtomicFile", lambda *a, **k: (_ for _ in ()).throw(OSError("full"))
    )
    assert length(path) == 5
    assert kept() == []


def test_files_that_change_under_an_open_index(tmp_path):
    path = tmp_path / "x"
    write(path, payloads_of(5))
    files = FileSet([str(path)])
    record_index(TFRecordFraming(), files, on_corrupt="raise", compression="none")
    files._mapped.clear()
    write(path, payloads_of(6))
    with pytest.raises(CorruptFile, match="another version"):
        files.content(0)
    path.unlink()
    with pytest.raises(NoFiles):
        length(path)


def test_compressed_files(tmp_path, scans):
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(b"".join(map(reference.framed, payloads_of(20)))))
    assert [length(path), length(path)] == [20, 20]
    assert scans == ["x"]
    path.write_bytes(gzip.compress(b"".join(map(reference.framed, payloads_of(21)))))
    assert length(path) == 21


def test_relative_and_absolute_paths_share_an_index(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert index_path(["x"], on_corrupt="raise") == index_path([str(tmp_path / "x")], on_corrupt="raise")
    assert index_path(["x"], on_corrupt="raise") != index_path(["x"], on_corrupt="skip")


@pytest.fixture
def tiny_blocks(monkeypatch):
    """Checksums of 64-byte blocks, none of which is checked when the index is loaded."""
    for module in (index_module, index_build):
        monkeypatch.setattr(module, "SUMMED_BYTES", 64)
    monkeypatch.setattr(index_module, "CHECKED_BYTES", 0)
    for module in (index_places, index_build):
        monkeypatch.setattr(module, "HELD_BYTES", 8)


@pytest.mark.parametrize("lazily", [True, False])
def test_no_flipped_byte_of_an_index_gives_another_row(tmp_path, monkeypatch, lazily):
    monkeypatch.setattr(index_module, "SUMMED_BYTES", 64)
    monkeypatch.setattr(index_build, "SUMMED_BYTES", 64)
    if lazily:
        monkeypatch.setattr(index_module, "CHECKED_BYTES", 0)
    path = tmp_path / "x"
    payloads = payloads_of(40)
    write(path, payloads)
    length(path)
    stored = cache_folder("index") / kept()[0]
    content = stored.read_bytes()
    order = np.random.default_rng(1).permutation(40)
    for at in range(len(content)):
        stored.write_bytes(content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :])
        records = TFRecordRecords([str(path)])
        assert records.spans(order).to_bytes() == [payloads[index] for index in order]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "rec", "avro", "tfrecord"])
def test_a_large_index_is_checked_where_it_is_used(tmp_path, tiny_blocks, suffix):
    """A start that points to another row would return that row."""
    path = tmp_path / f"x.{suffix}"
    values = np.arange(3000)
    hr.write(path, {"x": values}, **({"codec": "example"} if suffix == "rec" else {}))
    assert len(hr.open(path)) == 3000
    stored = cache_folder("index") / kept()[0]
    content = stored.read_bytes()
    starts = content[len(content) - 3000 * 8 :]
    for row in (0, 1, 1499, 2998, 2999):
        other = (row + 700) % 3000
        damaged = bytearray(content)
        at = len(content) - 3000 * 8 + row * 8
        damaged[at : at + 8] = starts[other * 8 : other * 8 + 8]
        stored.write_bytes(damaged)
        source = hr.open(path)
        assert source[(row + 1500) % 3000]["x"] == (row + 1500) % 3000
        assert source[row]["x"] == row
        assert source.batch(np.arange(3000))["x"].tolist() == values.tolist()
    stored.write_bytes(content)
    assert hr.open(path).batch(values[::-1])["x"].tolist() == values[::-1].tolist()


def test_damage_is_repaired_and_logged(tmp_path, tiny_blocks, caplog, scans):
    path = tmp_path / "x"
    payloads = payloads_of(100)
    write(path, payloads)
    length(path)
    stored = cache_folder("index") / kept()[0]
    content = bytearray(stored.read_bytes())
    content[-1] ^= 1
    stored.write_bytes(content)
    records = TFRecordRecords([str(path)])
    assert [bytes(records[index]) for index in range(100)] == payloads
    assert "is damaged" in caplog.text
    assert scans == ["x", "x"]
    assert length(path) == 100
    assert load_index(stored).starts[-1] == records.index.starts[-1]
    assert scans == ["x", "x"], "the new one is kept"


def test_a_damaged_index_of_files_that_are_others_by_now(tmp_path, tiny_blocks):
    path = tmp_path / "x"
    write(path, payloads_of(100))
    length(path)
    stored = cache_folder("index") / kept()[0]
    content = bytearray(stored.read_bytes())
    content[-1] ^= 1
    stored.write_bytes(content)
    records = TFRecordRecords([str(path)])
    assert len(records) == 100
    write(tmp_path / "other", payloads_of(99))
    os.replace(tmp_path / "other", path)
    records._files._mapped.clear()
    with pytest.raises(CorruptFile, match="another version"):
        records[99]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "jsonl"])
def test_rows_in_the_middle_that_only_their_block_gives_away(tmp_path, monkeypatch, suffix):
    """If ctime does not distinguish versions, the first row of a changed block does."""
    path = tmp_path / f"x.{suffix}"
    hr.write(tmp_path / "x.csv" if suffix != "jsonl" else path, {"x": np.arange(100_000, 200_000)})
    if suffix == "csv.gz":
        path.write_bytes(gzip.compress((tmp_path / "x.csv").read_bytes(), 0, mtime=0))
    fixed = Signature(1, 2, 3, 4)
    monkeypatch.setattr(
        Signature, "of_open", classmethod(lambda cls, fd, mapping=None: replace(fixed, size=os.fstat(fd).st_size))
    )
    monkeypatch.setattr(Signature, "of", classmethod(lambda cls, path: replace(fixed, size=os.stat(path).st_size)))
    monkeypatch.setattr(Versions, "of", lambda *_: None)
    monkeypatch.setattr(Versions, "check_in_place", lambda *_: None)
    source = hr.open(path)
    assert source[50_000]["x"] == 150_000
    content = bytearray((path.with_suffix("") if suffix == "csv.gz" else path).read_bytes())
    at = content.index(b"150000")
    content[at : at + 6] = b"15000\n" if suffix != "jsonl" else b"777777"
    with path.open("r+b") as file:
        file.write(gzip.compress(content, 0, mtime=0) if suffix == "csv.gz" else content)
    for entry in cache_folder("inflated").iterdir():
        entry.unlink()
    again = hr.open(path)
    assert again[0]["x"] == 100_000
    with pytest.raises(CorruptFile, match="another version|other bytes"):
        again[50_000]
    assert hr.open(path)[50_000]["x"] == (15000 if suffix != "jsonl" else 777777)


def test_checksums_of_the_content_do_not_depend_on_the_pieces(tmp_path, monkeypatch):
    path = tmp_path / "x.csv"
    hr.write(path, {"x": np.arange(20_000)})
    whole = CsvRecords([str(path)]).index
    monkeypatch.setattr(index_build, "PIECE_BYTES", 2 * index_build.SUMMED_BYTES)
    monkeypatch.setattr(index_build, "STEP_BYTES", 1000)
    for options in ({}, {"on_corrupt": "skip"}):
        path.touch()
        found = CsvRecords([str(path)], **options).index
        assert found.content[0].sums.tolist() == whole.content[0].sums.tolist()
        assert len(found.content[0].sums) == -(-path.stat().st_size // index_build.SUMMED_BYTES) > 1
        assert found.starts.tolist() == whole.starts.tolist()


def test_a_file_that_shrinks_before_its_checksums_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.csv"
    path.write_text("x\n" + "123456789\n" * 60_000)
    scan = CsvFraming.scan

    def scan_then_shrink(self, *args, **options):
        found = scan(self, *args, **options)
        os.truncate(path, 0)
        return found

    records = CsvRecords([str(path)])
    monkeypatch.setattr(CsvFraming, "scan", scan_then_shrink)
    with pytest.raises(CorruptFile, match="shrank while being read"):
        len(records)


ROW = st.tuples(
    st.sampled_from(["1", "plain", '"a\nb"', '"\n"', '"x"",\n""y"', 'in"side', '"' + "\n" * 90 + '"']), st.just("2")
)


@given(st.lists(ROW, max_size=120), st.sampled_from(["\n", "\r\n", "\n\n"]), st.sampled_from([20, 64, 150, 1000]))
def test_pieces_of_text_join_to_what_one_scan_finds(tmp_path_factory, rows, end, piece_bytes):
    path = tmp_path_factory.mktemp("pieces") / "x.csv"
    path.write_bytes(("a,b" + end + "".join(f"{a},{b}{end}" for a, b in rows)).encode())
    records = CsvRecords([str(path)], options=hr.CSV(header=True, delimiter=","))
    whole = build_index(records.framing, FileSet([str(path)]))
    assert len(whole) == len(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_build, "PIECE_BYTES", piece_bytes)
        patch.setattr(index_build, "STEP_BYTES", 100)
        pieces = build_index(records.framing, FileSet([str(path)]))
    assert pieces.starts.tolist() == whole.starts.tolist()
    assert [sums.sums.tolist() for sums in pieces.content] == [sums.sums.tolist() for sums in whole.content]
