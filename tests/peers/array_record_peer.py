"""Runs in the environment of the peers: the real array_record package writes or reads as standard input says.

Input and output are JSON. Records travel as files of (uint32 length, bytes).
"""

import hashlib
import json
import struct
import sys
from pathlib import Path

from array_record.python.array_record_data_source import ArrayRecordDataSource
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter


def records_in(path):
    data, at = Path(path).read_bytes(), 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def write(job):
    writer = ArrayRecordWriter(job["path"], job["options"])
    for record in records_in(job["records"]):
        writer.write(record)
    writer.close()
    return hashlib.sha256(Path(job["path"]).read_bytes()).hexdigest()


def digests(records):
    return [hashlib.sha256(record).hexdigest() for record in records]


def read(job):
    reader = ArrayRecordReader(job["path"])
    assert reader.ok()
    count = reader.num_records()
    everything = digests(reader.read_all())
    picks = [int(pick * count) for pick in (0, 0.3, 0.5, 0.99)] if count else []
    assert digests(reader.read(picks)) == [everything[pick] for pick in picks]
    options = reader.writer_options_string()
    reader.close()
    with ArrayRecordDataSource(job["path"]) as source:
        assert len(source) == count
        if picks and "group_size:1," in options:
            assert digests(source.__getitems__(picks)) == [everything[pick] for pick in picks]
    return {"options": options.decode() if isinstance(options, bytes) else options, "digests": everything}


def main():
    jobs = json.load(sys.stdin)
    json.dump([{"write": write, "read": read}[job["do"]](job) for job in jobs], sys.stdout)


if __name__ == "__main__":
    main()
