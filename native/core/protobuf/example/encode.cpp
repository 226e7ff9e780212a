#include "core/protobuf/example/encode.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/protobuf/varints.hpp"

namespace headrace::example {
namespace {

using proto::field_size;
using proto::write_head;

std::byte* write_bytes(std::byte* to, Bytes bytes) {
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    return to + bytes.size();
}

Bytes name_of(const Source& source) { return std::as_bytes(std::span(source.name)); }

/// Values [first, last) of a source: the content of one Feature.
struct Values {
    std::size_t first;
    std::size_t last;
};

Values values_at(const Source& source, std::size_t row) {
    if (source.count >= 0) {
        const auto count = static_cast<std::size_t>(source.count);
        return {row * count, (row + 1) * count};
    }
    return {static_cast<std::size_t>(source.offsets[row]), static_cast<std::size_t>(source.offsets[row + 1])};
}

/// Size of the packed numbers of a list, or of all its text fields.
std::size_t content_size(const Source& source, Values values) {
    std::size_t size = 0;
    switch (source.kind) {
    case Kind::float32: return (values.last - values.first) * sizeof(float);
    case Kind::int64:
        return proto::varints_size(source.numbers + values.first * sizeof(std::int64_t), values.last - values.first);
    case Kind::bytes:
        for (std::size_t i = values.first; i < values.last; ++i) size += field_size(source.texts[i].size());
        return size;
    case Kind::none:
    case Kind::number: break;
    }
    return size;
}

/// Size of the BytesList, FloatList or Int64List message.
std::size_t list_size(const Source& source, std::size_t content) {
    return source.kind == Kind::bytes || content == 0 ? content : field_size(content);
}

std::size_t feature_size(const Source& source, std::size_t content) { return field_size(list_size(source, content)); }

std::byte* write_feature(std::byte* to, const std::byte* room, const Source& source, Values values,
                         std::size_t content) {
    to = write_head(to, static_cast<std::uint32_t>(source.kind), list_size(source, content));
    if (source.kind == Kind::bytes) {
        for (std::size_t i = values.first; i < values.last; ++i)
            to = write_bytes(write_head(to, 1, source.texts[i].size()), source.texts[i]);
        return to;
    }
    if (content == 0) return to;
    to = write_head(to, 1, content);
    if (source.kind == Kind::float32) return write_bytes(to, {source.numbers + values.first * sizeof(float), content});
    return proto::write_varints(to, to + content, room, source.numbers + values.first * sizeof(std::int64_t),
                                values.last - values.first);
}

/// Measures the parts of one example. `contents` keeps sizes in the order in which writing needs them.
class Measure {
  public:
    Measure(const std::vector<Source>& sources, std::vector<std::size_t>& contents)
        : sources_(sources),
          contents_(contents) {}

    /// Size of the map value of source `k` in example `i`: a Feature or a FeatureList.
    std::size_t value(std::size_t k, std::size_t i) {
        const Source& source = sources_[k];
        if (!source.list) return feature_size(source, remember(content_size(source, values_at(source, i))));
        std::size_t size = 0;
        const std::size_t slot = contents_.size();
        contents_.push_back(0);
        for (std::int64_t step = source.steps[i]; step < source.steps[i + 1]; ++step)
            size += field_size(feature_size(
                source, remember(content_size(source, values_at(source, static_cast<std::size_t>(step))))));
        contents_[slot] = size;
        return size;
    }

  private:
    std::size_t remember(std::size_t content) {
        contents_.push_back(content);
        return content;
    }

    const std::vector<Source>& sources_;
    std::vector<std::size_t>& contents_;
};

std::size_t entry_size(const Source& source, std::size_t value) {
    return field_size(source.name.size()) + field_size(value);
}

class Writer {
  public:
    Writer(const std::vector<Source>& sources, const std::vector<std::size_t>& contents, const std::byte* room)
        : sources_(sources),
          contents_(contents),
          room_(room) {}

    std::byte* entry(std::byte* to, std::size_t k, std::size_t i) {
        const Source& source = sources_[k];
        const std::size_t content = contents_[next_++];
        const std::size_t value = source.list ? content : feature_size(source, content);
        to = write_head(to, 1, entry_size(source, value));
        to = write_bytes(write_head(to, 1, source.name.size()), name_of(source));
        to = write_head(to, 2, value);
        if (!source.list) return write_feature(to, room_, source, values_at(source, i), content);
        for (std::int64_t step = source.steps[i]; step < source.steps[i + 1]; ++step) {
            const std::size_t inner = contents_[next_++];
            to = write_head(to, 1, feature_size(source, inner));
            to = write_feature(to, room_, source, values_at(source, static_cast<std::size_t>(step)), inner);
        }
        return to;
    }

  private:
    const std::vector<Source>& sources_;
    const std::vector<std::size_t>& contents_;
    const std::byte* room_; ///< The end of the block.
    std::size_t next_ = 0;
};

bool rises_to(std::span<const std::int64_t> offsets, std::size_t rows, std::size_t end) {
    return offsets.size() == rows + 1 && offsets.front() == 0 && std::cmp_equal(offsets.back(), end) &&
           std::ranges::is_sorted(offsets);
}

void check(const Source& source, std::size_t k, std::size_t n) {
    const std::size_t values = source.kind == Kind::bytes ? source.texts.size() : source.number_count;
    bool good = true;
    std::size_t rows = n;
    if (source.list) {
        good = !source.steps.empty() && rises_to(source.steps, n, static_cast<std::size_t>(source.steps.back()));
        rows = good ? static_cast<std::size_t>(source.steps.back()) : 0;
    }
    if (good && source.count >= 0) {
        const auto count = static_cast<std::size_t>(source.count);
        good = count == 0 ? values == 0 : values % count == 0 && values / count == rows;
    } else if (good) {
        good = rises_to(source.offsets, rows, values);
    }
    if (good) return;
    FormatError error(Fault::wrong_count, 0, rows, values);
    error.feature = static_cast<std::int64_t>(k);
    throw error;
}

} // namespace

proto::Payloads encode(std::vector<Source> sources, std::size_t n, std::size_t head, std::size_t tail,
                       std::size_t align, const std::shared_ptr<Pool>& pool) {
    for (std::size_t k = 0; k < sources.size(); ++k) check(sources[k], k, n);
    // Features before feature lists, each in the order of their keys.
    std::ranges::sort(
        sources, [](const Source& a, const Source& b) { return std::tie(a.list, a.name) < std::tie(b.list, b.name); });
    const auto lists =
        static_cast<std::size_t>(std::count_if(sources.begin(), sources.end(), [](const Source& s) { return s.list; }));
    const std::size_t features = sources.size() - lists;
    const bool features_map = features != 0 || lists == 0; // An empty context is omitted.

    proto::Payloads out;
    out.starts.reserve(n);
    out.sizes.reserve(n);
    std::vector<std::size_t> contents, maps(2 * n);
    Measure measure(sources, contents);
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t k = 0; k < sources.size(); ++k)
            maps[2 * i + (k >= features)] += field_size(entry_size(sources[k], measure.value(k, i)));
        const std::size_t size =
            (features_map ? field_size(maps[2 * i]) : 0) + (lists != 0 ? field_size(maps[2 * i + 1]) : 0);
        out.place(size, head, tail, align);
    }
    out.block = pool->take(out.size);
    Writer writer(sources, contents, out.block.data() + out.size);
    out.write_each([&](std::size_t i, std::byte* to) {
        if (features_map) to = write_head(to, 1, maps[2 * i]);
        for (std::size_t k = 0; k < features; ++k) to = writer.entry(to, k, i);
        if (lists != 0) to = write_head(to, 2, maps[2 * i + 1]);
        for (std::size_t k = features; k < sources.size(); ++k) to = writer.entry(to, k, i);
    });
    return out;
}

} // namespace headrace::example
