#pragma once

#include <cstddef>

#include "core/engines/jpeg/kernels.hpp"

namespace headrace::jpeg {

/// The inverse DCT of one block with `side` x `side` samples, 4, 2 or 1 instead of 8: each sample is the mean of those
/// that it stands for. To the bit as libjpeg's scaled output.
void transform_scaled(const Block& block, std::size_t side);

/// The same for a block of only a mean, for every `side` up to 8.
void flat_scaled(const Block& block, std::size_t side);

} // namespace headrace::jpeg
