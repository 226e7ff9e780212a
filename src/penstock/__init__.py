"""Training data from record files to models, and what was learned on to an endpoint.

Three doors: :func:`records` (bytes by index), :func:`open` (examples by index), :class:`Loader` (batches by iteration).
"""

from penstock.contracts.feature import Feature
from penstock.contracts.schema import Schema
from penstock.contracts.shard import Shard
from penstock.contracts.values import Ragged
from penstock.errors import (
    CorruptFile,
    CorruptRecord,
    DataError,
    MissingExtra,
    NoFiles,
    NoSuchFeature,
    PenstockError,
    SchemaMismatch,
    StateMismatch,
    TransformError,
    UnknownFormat,
    UnsupportedData,
    Where,
)
from penstock.formats.opening import open_records as records
from penstock.sources.opening import open
from penstock.sources.views import Source
from penstock.writing.convert import Converted, convert
from penstock.writing.verify import Report, verify
from penstock.writing.write import write, write_records
from penstock.writing.writer import Writer
