#include "core/protobuf/record/encode.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace headrace::sagemaker {
namespace {

using proto::field_size;
using proto::varint_size;
using proto::write_head;
using proto::write_varint;

[[noreturn]] void fail(Fault fault, std::size_t source, std::uint64_t expected, std::uint64_t found,
                       std::int64_t record = -1) {
    FormatError error(fault, 0, expected, found);
    error.feature = static_cast<std::int64_t>(source);
    error.record = record;
    throw error;
}

std::byte* write_bytes(std::byte* to, Bytes bytes) {
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    return to + bytes.size();
}

/// Size of a packed field, or 0 if it is empty.
std::size_t packed_size(std::size_t content) { return content == 0 ? 0 : field_size(content); }

/// Sizes of the parts of one tensor, in bytes.
struct Sizes {
    std::size_t values; ///< The packed numbers, or all text fields.
    std::size_t keys;
    std::size_t shape;
    std::size_t tensor; ///< The message that contains them.
    std::size_t entry;  ///< The map entry that contains that.
};

/// One source, with its position in wire order.
class Part {
  public:
    Part(const Source& source, std::size_t number) : source_(source), number_(number) {}

    [[nodiscard]] const Source& source() const { return source_; }

    void check(std::size_t n) const {
        const std::size_t values =
            source_.kind == Kind::none || source_.kind == Kind::bytes ? source_.texts.size() : source_.number_count;
        bool good = true;
        if (source_.count >= 0) {
            const auto count = static_cast<std::size_t>(source_.count);
            good = count == 0 ? values == 0 : values % count == 0 && values / count == n;
        } else {
            const auto& offsets = source_.offsets;
            good = offsets.size() == n + 1 && offsets.front() == 0 && std::cmp_equal(offsets.back(), values) &&
                   std::ranges::is_sorted(offsets);
        }
        good = good && (!source_.sparse || source_.key_count == values) && source_.shapes.size() == source_.rank * n;
        if (!good) fail(Fault::wrong_count, number_, n, values);
    }

    /// Measures record `i`.
    [[nodiscard]] Sizes measure(std::size_t i) const {
        const auto [first, last] = values_at(i);
        Sizes sizes{};
        if (source_.kind == Kind::none) {
            const std::size_t size = source_.texts[first].size();
            sizes.entry = size == 0 ? 0 : field_size(size);
            return sizes;
        }
        sizes.values = values_size(first, last);
        if (source_.sparse) {
            for (std::size_t at = first; at < last; ++at) sizes.keys += varint_size(key_at(at, i));
            sizes.shape = varint_size(source_.width);
        } else if (source_.kind != Kind::bytes) { // Texts have no shape on the wire.
            each_axis(i, [&](std::uint64_t length) { sizes.shape += varint_size(length); });
        }
        sizes.tensor = source_.kind == Kind::bytes
                           ? sizes.values
                           : packed_size(sizes.values) + packed_size(sizes.keys) + packed_size(sizes.shape);
        sizes.entry = field_size(field_size(source_.key.size()) + field_size(field_size(sizes.tensor)));
        return sizes;
    }

    /// Writes record `i`, which was measured before.
    std::byte* write(std::byte* to, const std::byte* room, std::size_t i, const Sizes& sizes) const {
        const auto [first, last] = values_at(i);
        const auto place = static_cast<std::uint32_t>(source_.place);
        if (source_.kind == Kind::none)
            return sizes.entry == 0
                       ? to
                       : write_bytes(write_head(to, place, source_.texts[first].size()), source_.texts[first]);
        to = write_head(to, place, field_size(source_.key.size()) + field_size(field_size(sizes.tensor)));
        to = write_bytes(write_head(to, 1, source_.key.size()), std::as_bytes(std::span(source_.key)));
        to = write_head(to, 2, field_size(sizes.tensor));
        to = write_head(to, field_of(source_.kind), sizes.tensor);
        to = write_values(to, room, first, last, sizes.values);
        if (sizes.keys != 0) {
            to = write_head(to, 2, sizes.keys);
            to = proto::write_measured<write_varint>(to, to + sizes.keys, room, first, last,
                                                     [&](std::size_t at) { return key_at(at, i); });
        }
        if (sizes.shape == 0) return to;
        to = write_head(to, 3, sizes.shape);
        if (source_.sparse) return write_varint(to, source_.width);
        each_axis(i, [&](std::uint64_t length) { to = write_varint(to, length); });
        return to;
    }

  private:
    [[nodiscard]] std::pair<std::size_t, std::size_t> values_at(std::size_t i) const {
        if (source_.count >= 0)
            return {i * static_cast<std::size_t>(source_.count), (i + 1) * static_cast<std::size_t>(source_.count)};
        return {static_cast<std::size_t>(source_.offsets[i]), static_cast<std::size_t>(source_.offsets[i + 1])};
    }

    [[nodiscard]] std::uint64_t
    int_at(std::size_t at) const { // Negative numbers take ten bytes, as protobuf's int32 does.
        return static_cast<std::uint64_t>(
            static_cast<std::int64_t>(load_le<std::int32_t>(source_.numbers + at * sizeof(std::int32_t))));
    }

    [[nodiscard]] std::size_t values_size(std::size_t first, std::size_t last) const {
        std::size_t size = 0;
        if (source_.kind == Kind::bytes) {
            for (std::size_t at = first; at < last; ++at) size += field_size(source_.texts[at].size());
        } else if (source_.kind == Kind::int32) {
            for (std::size_t at = first; at < last; ++at) size += varint_size(int_at(at));
        } else {
            size = (last - first) * size_of(source_.kind);
        }
        return size;
    }

    std::byte* write_values(std::byte* to, const std::byte* room, std::size_t first, std::size_t last,
                            std::size_t size) const {
        if (source_.kind == Kind::bytes) {
            for (std::size_t at = first; at < last; ++at)
                to = write_bytes(write_head(to, 1, source_.texts[at].size()), source_.texts[at]);
            return to;
        }
        if (size == 0) return to;
        to = write_head(to, 1, size);
        if (source_.kind != Kind::int32)
            return write_bytes(to, {source_.numbers + first * size_of(source_.kind), size});
        return proto::write_measured<write_varint>(to, to + size, room, first, last,
                                                   [this](std::size_t at) { return int_at(at); });
    }

    [[nodiscard]] std::uint64_t key_at(std::size_t at, std::size_t record) const {
        const std::int64_t key = source_.wide_keys ? load_le<std::int64_t>(source_.keys + at * sizeof(std::int64_t))
                                                   : load_le<std::int32_t>(source_.keys + at * sizeof(std::int32_t));
        if (key < 0 || std::cmp_greater_equal(key, source_.width))
            fail(Fault::range, number_, source_.width, static_cast<std::uint64_t>(key),
                 static_cast<std::int64_t>(record));
        return static_cast<std::uint64_t>(key);
    }

    template <typename OnAxis> void each_axis(std::size_t i, OnAxis&& on_axis) const {
        for (const std::uint64_t length : source_.shape) on_axis(length);
        for (std::size_t axis = 0; axis < source_.rank; ++axis)
            on_axis(static_cast<std::uint64_t>(source_.shapes[i * source_.rank + axis]));
    }

    const Source& source_;
    std::size_t number_;
};

std::vector<Part> in_order(const std::vector<Source>& sources) {
    std::vector<std::size_t> order(sources.size());
    for (std::size_t k = 0; k < sources.size(); ++k) order[k] = k;
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
        return std::tie(sources[a].place, sources[a].key) < std::tie(sources[b].place, sources[b].key);
    });
    std::vector<Part> parts;
    parts.reserve(order.size());
    for (const std::size_t k : order) parts.emplace_back(sources[k], k);
    return parts;
}

} // namespace

proto::Payloads encode(const std::vector<Source>& sources, std::size_t n, std::size_t head, std::size_t tail,
                       std::size_t align, const std::shared_ptr<Pool>& pool) {
    const std::vector<Part> parts = in_order(sources);
    for (const Part& part : parts) part.check(n);
    proto::Payloads out;
    out.starts.reserve(n);
    out.sizes.reserve(n);
    const auto sizes = std::make_unique_for_overwrite<Sizes[]>(n * parts.size());
    for (std::size_t i = 0; i < n; ++i) {
        std::size_t size = 0;
        for (std::size_t k = 0; k < parts.size(); ++k)
            size += (sizes[i * parts.size() + k] = parts[k].measure(i)).entry;
        out.place(size, head, tail, align);
    }
    out.block = pool->take(out.size);
    const std::byte* const room = out.block.data() + out.size;
    out.write_each([&](std::size_t i, std::byte* to) {
        for (std::size_t k = 0; k < parts.size(); ++k) to = parts[k].write(to, room, i, sizes[i * parts.size() + k]);
    });
    return out;
}

} // namespace headrace::sagemaker
