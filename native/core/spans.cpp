#include "core/spans.hpp"

#include <algorithm>

#include "core/crc32c.hpp"
#include "core/tfrecord.hpp"

namespace headrace {
namespace {

constexpr std::size_t most_prefetched = 4096;

} // namespace

const Alternative* Spans::alternative(std::size_t i) const noexcept {
    const auto found = std::lower_bound(alternatives.begin(), alternatives.end(), i,
                                        [](const Alternative& other, std::size_t record) { return other.record < record; });
    return found != alternatives.end() && found->record == i ? &*found : nullptr;
}

void Spans::prefetch_after(std::size_t i) const noexcept {
#if defined(__GNUC__) || defined(__clang__)
    if (i + 1 >= payloads.size()) return;
    const Bytes payload = payloads[i + 1];
    const std::size_t size = std::min(payload.size(), most_prefetched);
    for (std::size_t at = 0; at < size; at += 64) __builtin_prefetch(payload.data() + at);
#else
    (void)i;
#endif
}

void Spans::check(std::size_t i) const {
    if (seal != Seal::none) compare(i, crc32c(payloads[i]));
}

void Spans::check_and_prefetch(std::size_t i) const {
    if (seal == Seal::none || i + 1 >= payloads.size() || payloads[i].size() > most_prefetched || payloads[i + 1].size() > most_prefetched) {
        prefetch_after(i);
        check(i);
    } else {
        compare(i, crc32c_fetching(payloads[i], payloads[i + 1]));
    }
}

void Spans::compare(std::size_t i, std::uint32_t crc) const {
    const Bytes payload = payloads[i];
    const auto stored = load_le<std::uint32_t>(payload.data() + payload.size());
    const std::uint32_t computed = mask_crc(crc);
    if (stored == computed) return;
    FormatError error(Fault::payload_checksum, tfrecord::header_size, stored, computed);
    error.record = static_cast<std::int64_t>(i);
    throw error;
}

} // namespace headrace
