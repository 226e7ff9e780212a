"""Objects as tasks."""

from __future__ import annotations

from types import SimpleNamespace

from headrace.jobs.transform import record
from headrace.jobs.transform.send import _tasks


def test_the_content_of_an_object_is_read_when_its_version_can_no_longer_stay_the_same(tmp_path, monkeypatch):
    # A second change within the tick of the first would leave the version as it is, and a resumed job would keep old answers.
    path = tmp_path / "a.csv"
    path.write_bytes(b"old")
    waited, read = [], []

    def wait(signatures):
        waited.extend(signatures)
        path.write_bytes(b"new")

    def payloads():
        read.append(path.read_bytes())
        return iter(())

    monkeypatch.setattr(record, "wait_for_tick", wait)
    file = SimpleNamespace(source=SimpleNamespace(path=path, name="a.csv"), read=payloads, failure=None, version=())
    (end,) = _tasks(file)
    assert (end.payload, end.fault) == (None, None)
    assert [signature.size for signature in waited] == [3]
    assert read == [b"new"]
