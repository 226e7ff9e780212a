#pragma once

#include <functional>

#include "core/sagemaker_record_decode.hpp"

namespace headrace::sagemaker {

/// Decoding the rows of one call in several parts, each on a thread of its own.

/// Where to cut rows: part k is rows [cuts[k], cuts[k + 1]). At most `most` parts of about equally many bytes, as many as have
/// `least_bytes` each; always at least one, and none without rows where there are rows.
[[nodiscard]] std::vector<std::size_t> cut_rows(std::span<const Bytes> payloads, std::size_t most, std::size_t least_bytes);

/// Calls `work(k)` for every k below `count`, the first on this thread and each other on one of its own where threads are to be
/// had. Returns when all are done, and then throws what the first of those that failed threw.
void on_threads(std::size_t count, const std::function<void(std::size_t)>& work);

/// One column of each spec, of the parts that rows were cut into. The first part's blocks are kept, so that only the numbers of
/// the others are copied; fixed columns of the first part have room for all rows.
[[nodiscard]] std::vector<Column> join_parts(const std::vector<Spec>& specs, std::vector<std::vector<Column>> parts,
                                             std::span<const std::size_t> cuts, const std::shared_ptr<Pool>& pool);

} // namespace headrace::sagemaker
