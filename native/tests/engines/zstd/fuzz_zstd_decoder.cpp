// Decompresses arbitrary bytes as Zstandard frames. There must be no access out of bounds, pairs must give the same as
// single frames, and libzstd must agree.
#include <array>
#include <cstdlib>
#include <vector>

#include <zstd.h>

#include "core/engines/zstd/decoder.hpp"

using namespace headrace;

namespace {

void must(bool good) {
    if (!good) std::abort();
}

// A frame and room for its output, each in an allocation of its own, so that the sanitizers see accesses outside them.
struct Input {
    std::vector<std::byte> frame, target;

    Input(Bytes bytes, std::size_t size) : frame(bytes.begin(), bytes.end()), target(size) {}
};

std::size_t size_of(Bytes bytes, std::size_t otherwise) {
    zstd::Frame frame{bytes};
    const auto size = frame.header();
    return frame.fits && size && *size <= 1 << 18 ? static_cast<std::size_t>(*size) : otherwise;
}

// Refused frames are left to libzstd. Accepted ones must give libzstd's output.
void must_be_of_the_library(const Input& input) {
    std::vector<std::byte> wanted(input.target.size());
    const std::size_t size = ZSTD_decompress(wanted.data(), wanted.size(), input.frame.data(), input.frame.size());
    must(ZSTD_isError(size) == 0 && size == wanted.size() && wanted == input.target);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 4) return 0;
    const Bytes bytes(reinterpret_cast<const std::byte*>(data + 4), size - 4);
    const std::size_t otherwise = data[0] | std::size_t{data[1]} << 8;
    const std::size_t cut = (data[2] | std::size_t{data[3]} << 8) % (bytes.size() + 1);
    std::array<Input, 2> inputs = {Input(bytes.first(cut), size_of(bytes.first(cut), otherwise)),
                                   Input(bytes.subspan(cut), size_of(bytes.subspan(cut), otherwise))};
    std::array<bool, 2> alone{}, done{};
    std::array<std::vector<std::byte>, 2> found;
    for (std::size_t i = 0; i < 2; ++i) {
        zstd::Decoder decoder;
        alone[i] = decoder.decompress(inputs[i].frame, inputs[i].target);
        found[i] = inputs[i].target;
        if (alone[i]) must_be_of_the_library(inputs[i]);
    }
    std::array<zstd::Decoder, 2> decoders;
    zstd::Decoder::decompress_pair(decoders, {inputs[0].frame, inputs[1].frame}, {inputs[0].target, inputs[1].target},
                                   done);
    for (std::size_t i = 0; i < 2; ++i) must(done[i] == alone[i] && (!alone[i] || found[i] == inputs[i].target));
    return 0;
}
