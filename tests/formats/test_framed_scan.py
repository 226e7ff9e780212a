"""Finding records in order: native code against the plain reference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import tfrecord as reference

from penstock import _native
from penstock.errors import CorruptRecord
from penstock.formats.framed_scan import Scan
from penstock.formats.tfrecord_framing import TFRecordFraming, is_tfrecord, resume_after
from penstock.io.mapped import MappedFile

payloads_of = st.lists(st.binary(max_size=60), max_size=8)


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


def test_a_payload_hop_needs_a_sound_header_behind_it():
    content = bytearray(b"".join(map(reference.framed, [b"aaaa", b"bbbb", b"cccc"])))
    content[12] ^= 1
    content[20 + 8] ^= 1
    with pytest.raises(_native.FormatError) as raised:
        _native.scan_tfrecord(content, 0, len(content), verify=True, max_records=9)
    assert resume_after(raised.value, memoryview(content)) == 40
    assert resume_after(raised.value, memoryview(content[:30]), last=False) == -1
