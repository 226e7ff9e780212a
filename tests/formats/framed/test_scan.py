"""Sequential scans: native code compared with the plain reference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import tfrecord as reference

from headrace import _native
from headrace.errors import CorruptRecord
from headrace.formats.framed import scan as framed_scan
from headrace.formats.framed.scan import Scan
from headrace.formats.recordio.format import MAGIC, RecordIOFraming
from headrace.formats.tfrecord.format import TFRecordFraming, is_tfrecord, resume_after
from headrace.io.local.mapped import MappedFile

payloads_of = st.lists(st.binary(max_size=60), max_size=8)


def part(payload, flag=0):
    return (MAGIC | ((flag << 29 | len(payload)) << 32)).to_bytes(8, "little") + payload + bytes(-len(payload) % 4)


def views_of(run):
    return TFRecordFraming().payloads(run.buffer, run.starts, run.end)


@st.composite
def maybe_damaged(draw):
    """A file with a byte flipped, cut, or neither."""
    content = bytearray(b"".join(map(reference.framed, draw(payloads_of))))
    what = draw(st.sampled_from(["sound", "flip", "cut", "append"]))
    if what == "append":
        content += draw(st.binary(min_size=1, max_size=30))
    elif what != "sound" and content:
        at = draw(st.integers(0, len(content) - 1))
        if what == "cut":
            del content[at:]
        else:
            content[at] ^= draw(st.integers(1, 255))
    return bytes(content)


@given(maybe_damaged(), st.sampled_from([1, 40, 1 << 20]))
def test_native_equals_reference(tmp_path_factory, content, run_bytes):
    path = tmp_path_factory.mktemp("scan") / "x"
    path.write_bytes(content)
    starts, payloads, fault = reference.read(content)
    scan = Scan(TFRecordFraming(), MappedFile(str(path)), verify=True, run_bytes=run_bytes)
    found, seen, error = [], [], None
    try:
        for run in scan:
            assert run.first == len(found)
            found += run.starts.tolist()
            seen += [bytes(view) for view in views_of(run)]
    except CorruptRecord as raised:
        error = raised
    assert (found, seen) == (starts, payloads)
    assert (error is None) == (fault is None)
    if error is not None:
        assert (error.where.record, error.where.offset) == (fault.record, fault.offset)


@given(maybe_damaged())
def test_skipping_gives_only_sound_records_and_counts_every_byte(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("skip") / "x"
    path.write_bytes(content)
    scan = Scan(TFRecordFraming(), MappedFile(str(path)), verify=True, on_corrupt="skip")
    covered = 0
    for run in scan:
        covered += run.size
        for start, view in zip(run.starts.tolist(), views_of(run), strict=True):
            assert reference.framed(bytes(view)) == content[start : start + 16 + len(view)]
    assert covered + sum(size for _, size in scan.faults) == len(content)


class Parts:
    """A stream of given parts."""

    path = "x"
    fault = None

    def __init__(self, content, sizes):
        self.parts = []
        for size in sizes:
            self.parts.append(content[:size])
            content = content[size:]
        self.parts.append(content)

    def __iter__(self):
        return map(memoryview, self.parts)


def reported(content, on_corrupt):
    """The full result of a scan."""
    scan = Scan(TFRecordFraming(), content, verify=True, on_corrupt=on_corrupt)
    records, error = [], None
    try:
        for run in scan:
            assert run.first == len(records) + len(scan.faults)
            stops = [*run.starts.tolist()[1:], run.end]
            places = zip(run.starts.tolist(), stops, views_of(run), strict=True)
            records += [(run.base + start, run.base + stop, bytes(view)) for start, stop, view in places]
    except CorruptRecord as raised:
        error = str(raised)
    return records, scan.records, [(str(fault), size) for fault, size in scan.faults], error


@pytest.mark.parametrize("seam", [1, 7, 100])
@given(content=maybe_damaged(), sizes=st.lists(st.integers(0, 90), max_size=12))
def test_a_stream_in_any_parts_holds_the_records_of_the_file(tmp_path_factory, seam, content, sizes):
    path = tmp_path_factory.mktemp("parts") / "x"
    path.write_bytes(content)
    for on_corrupt in ("raise", "skip"):
        file, stream = MappedFile(str(path)), Parts(content, sizes)
        file.path = "x"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(framed_scan, "SEAM_BYTES", seam)
            found = reported(stream, on_corrupt)
        assert found == reported(file, on_corrupt)


def test_records_are_not_copied_but_where_parts_meet():
    content = b"".join(reference.framed(bytes([number]) * 100_000) for number in range(30))
    stream = Parts(content, [1_000_000, 150_000, 40_000, 1_000_000])
    runs = list(Scan(TFRecordFraming(), stream, verify=True))
    assert sum(map(len, runs)) == 30
    copied = sum(run.size for run in runs if not any(run.buffer.obj is part for part in stream.parts))
    assert 0 < copied < 500_000


def test_a_record_is_delivered_as_soon_as_it_arrives():
    framed = reference.framed(b"small")
    taken = []

    def parts():
        for number in range(5):
            taken.append(number)
            yield framed[:9]
            yield framed[9:]

    stream = Parts(b"", [])
    stream.parts = parts()
    for number, run in enumerate(Scan(TFRecordFraming(), stream, verify=True)):
        assert len(run) == 1
        assert len(taken) == number + 1


def test_cutting_a_run(tmp_path):
    (tmp_path / "x").write_bytes(b"".join(map(reference.framed, [b"a", b"bb", b"ccc"])))
    (run,) = Scan(TFRecordFraming(), MappedFile(str(tmp_path / "x")), verify=True)
    head, rest = run.cut(2)
    assert [bytes(view) for view in views_of(head)] == [b"a", b"bb"]
    assert [bytes(view) for view in views_of(rest)] == [b"ccc"]
    assert rest.where(0) == run.where(2)
    assert len(run.cut(3)[1]) == 0


def test_first_bytes():
    assert is_tfrecord(reference.framed(b"")[:12])
    assert not is_tfrecord(reference.framed(b"")[:11])
    assert not is_tfrecord(bytes(12))


def test_a_payload_is_skipped_only_if_a_valid_header_follows():
    content = bytearray(b"".join(map(reference.framed, [b"aaaa", b"bbbb", b"cccc"])))
    content[12] ^= 1
    content[20 + 8] ^= 1
    with pytest.raises(_native.FormatError) as raised:
        _native.scan_tfrecord(content, 0, len(content), verify=True, max_records=9)
    assert resume_after(raised.value, memoryview(content)) == 40
    assert resume_after(raised.value, memoryview(content[:30]), last=False) == -1


def all_of(path, content, framing):
    path.write_bytes(content)
    scan = Scan(framing, MappedFile(str(path)), verify=True, on_corrupt="skip")
    return scan, sum(map(len, scan))


def test_a_hostile_tfrecord_file_is_given_up(tmp_path):
    """Many headers each claim the rest of the file and are followed by a valid record: each claim would be summed, then skipped."""
    pairs, sound = 1000, reference.framed(b"sound")
    size = pairs * (12 + len(sound))
    content = b""
    while len(content) < size:
        length = (size - len(content)).to_bytes(8, "little")
        content += length + _native.masked_crc32c(length).to_bytes(4, "little") + sound
    scan, records = all_of(tmp_path / "x", content + bytes(100), TFRecordFraming())
    assert 64 <= records == len(scan.faults) - 1 <= 200  # about 128 claims are 64 times the file
    assert sum(skipped for _, skipped in scan.faults) + records * len(sound) == len(content) + 100


def test_natural_damage_is_never_given_up(tmp_path):
    content = b"".join(reference.framed(bytes(50)) for _ in range(2000))
    spoiled = bytearray(content)
    spoiled[20::132] = b"\xff" * len(spoiled[20::132])  # the payload of every other record
    scan, records = all_of(tmp_path / "x", bytes(spoiled), TFRecordFraming())
    assert records == len(scan.faults) == 1000


class Counted(RecordIOFraming):
    """Remembers the state of its last pass."""

    def one_pass(self, size):
        self.passing = super().one_pass(size)
        return self.passing


@pytest.mark.parametrize("end", [b"", part(b"", 3) + b"no record"], ids=["no end", "an end"])
def test_a_hostile_recordio_file_is_walked_over_once(tmp_path, end):
    """Many headers each lead into one long chain of parts and are followed by a valid record."""
    heads, middles = 300, 30_000
    content = b""
    for head in range(heads):
        size = 20 * (heads - 1 - head) + 12
        content += (MAGIC | ((1 << 29 | size) << 32)).to_bytes(8, "little") + part(b"good")
    framing = Counted()
    _, records = all_of(tmp_path / "x", content + part(b"", 2) * middles + end, framing)
    assert records >= heads
    assert framing.passing._walks.looked < 8 * (
        65 * heads + middles
    )  # walking the chain each time would take 40 times as many
