"""The codec for records that may be SageMaker Records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.codecs.sagemaker_record.codec import SageMakerRecordCodec
from headrace.codecs.sagemaker_record.infer import infer_records
from headrace.contracts.schema import Schema
from headrace.errors import CorruptRecord, DataError

__all__ = ["sagemaker_record_codec"]


def sagemaker_record_codec(
    records: Any, sample: Iterable[Any], given: Schema | None, *, named: bool
) -> SageMakerRecordCodec | None:
    """The codec that a sample of some records shows.

    Args:
        records: Where the sample is from.
        sample: Blocks of payloads.
        given: Their schema, where the caller knows it.
        named: Whether the caller says that they are Records.

    Returns:
        ``None`` where they are none and nobody said that they are.

    Raises:
        CorruptRecord: The caller said that they are, and they are not.
        SchemaMismatch: A feature holds different kinds of tensors.
    """
    blocks = list(sample)
    try:
        found = infer_records(blocks)
    except DataError as error:
        raise error if error.where.path else error.relocated(records.where_in_order(error.where.record or 0)) from error
    if found is not None:
        return SageMakerRecordCodec(given or found.schema, places=found.places, kinds=found.kinds)
    if not named:
        return None
    if given is None and any(map(len, blocks)):
        raise CorruptRecord(
            records.where_in_order(0),
            expected="SageMaker Records",
            found="payloads that are none, or hold no tensor",
            hint="codec='raw' reads them as bytes.",
        )
    return SageMakerRecordCodec(given or Schema({}))
