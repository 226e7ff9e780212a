#include "core/spans.hpp"

#include <algorithm>

#include "core/crc32c.hpp"
#include "core/tfrecord.hpp"

namespace penstock {

const Alternative* Spans::alternative(std::size_t i) const noexcept {
    const auto found = std::lower_bound(alternatives.begin(), alternatives.end(), i,
                                        [](const Alternative& other, std::size_t record) { return other.record < record; });
    return found != alternatives.end() && found->record == i ? &*found : nullptr;
}

void Spans::prefetch_after(std::size_t i) const noexcept {
#if defined(__GNUC__) || defined(__clang__)
    constexpr std::size_t ahead = 1, line = 64, most = 4096;
    if (i + ahead >= payloads.size()) return;
    const Bytes payload = payloads[i + ahead];
    const std::size_t size = std::min(payload.size(), most);
    for (std::size_t at = 0; at < size; at += line) __builtin_prefetch(payload.data() + at);
#else
    (void)i;
#endif
}

void Spans::check(std::size_t i) const {
    if (seal == Seal::none) return;
    const Bytes payload = payloads[i];
    const auto stored = load_le<std::uint32_t>(payload.data() + payload.size());
    const std::uint32_t computed = mask_crc(crc32c(payload));
    if (stored == computed) return;
    FormatError error(Fault::payload_checksum, tfrecord::header_size, stored, computed);
    error.record = static_cast<std::int64_t>(i);
    throw error;
}

} // namespace penstock
