#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/protobuf/example/decode.hpp"

namespace headrace::testing {

/// {"i": [1, -1, 300]} with packed values.
inline constexpr std::string_view packed = "0a180a160a016912111a0f0a0d01ffffffffffffffffff01ac02";

inline example::Spec spec(std::string name, example::Kind kind, std::int64_t count, bool list = false) {
    example::Spec out;
    out.name = std::move(name);
    out.kind = kind;
    out.count = count;
    out.list = list;
    return out;
}

/// A length-delimited field.
inline std::string field(std::uint32_t number, std::string_view content) {
    std::byte head[11];
    const std::byte* const end = proto::write_head(head, number, content.size());
    return std::string(reinterpret_cast<const char*>(head), static_cast<std::size_t>(end - head)).append(content);
}

inline std::string varint(std::uint64_t value) {
    std::byte bytes[10];
    const std::byte* const end = proto::write_varint(bytes, value);
    return {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(end - bytes)};
}

/// Features with their lists in the usual form.
inline std::string texts(const std::vector<std::string>& values) {
    std::string list;
    for (const std::string& value : values) list += field(1, value);
    return field(1, list);
}

inline std::string floats(const std::vector<float>& values) {
    return field(2, field(1, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}));
}

inline std::string integers(const std::vector<std::int64_t>& values) {
    std::string run;
    for (const std::int64_t value : values) run += varint(static_cast<std::uint64_t>(value));
    return field(3, field(1, run));
}

/// A map entry of Features or FeatureLists.
inline std::string entry(std::string_view key, std::string_view value) {
    return field(1, field(1, key) + field(2, value));
}

/// A decoder's result for some records: their columns, or a fault.
struct Answer {
    std::vector<example::Column> columns;
    std::optional<FormatError> fault;
};

inline Answer answer(const example::Decoder& decoder, const Spans& spans, const std::shared_ptr<Pool>& pool,
                     std::shared_ptr<const example::RecordTemplate>& usual) {
    try {
        return {decoder.decode(spans, pool, usual), std::nullopt};
    } catch (const FormatError& fault) {
        return {{}, fault};
    }
}

/// Whether records decode to the same as each of them alone, which no template helps with. `usual` is what other
/// records left.
inline bool is_same_as_alone(const example::Decoder& decoder, const Spans& spans, const std::shared_ptr<Pool>& pool,
                             std::shared_ptr<const example::RecordTemplate>& usual) {
    const std::vector<example::Spec>& specs = decoder.specs();
    const Answer together = answer(decoder, spans, pool, usual);
    struct Seen {
        std::size_t numbers = 0, texts = 0, steps = 0, lists = 0;
    };
    std::vector<Seen> seen(specs.size());
    for (std::size_t i = 0; i < spans.payloads.size(); ++i) {
        Spans one;
        one.payloads = {spans.payloads[i]};
        std::shared_ptr<const example::RecordTemplate> none;
        const Answer alone = answer(decoder, one, pool, none);
        if (alone.fault)
            return together.fault && together.fault->record == static_cast<std::int64_t>(i) &&
                   together.fault->fault == alone.fault->fault && together.fault->offset == alone.fault->offset &&
                   together.fault->feature == alone.fault->feature &&
                   together.fault->expected == alone.fault->expected && together.fault->found == alone.fault->found;
        if (together.fault && together.fault->record <= static_cast<std::int64_t>(i)) return false;
        if (together.fault) continue;
        for (std::size_t k = 0; k < specs.size(); ++k) {
            const example::Column &whole = together.columns[k], &part = alone.columns[k];
            const std::size_t item = example::size_of_number(specs[k].kind);
            Seen& before = seen[k];
            if (part.number_count != 0 && std::memcmp(whole.numbers.data() + before.numbers * item, part.numbers.data(),
                                                      part.number_count * item) != 0)
                return false;
            for (std::size_t t = 0; t < part.texts.count; ++t) {
                const Bytes expected = part.texts.view().at(t);
                if (before.texts + t >= whole.texts.count) return false;
                const Bytes found = whole.texts.view().at(before.texts + t);
                if (!std::equal(found.begin(), found.end(), expected.begin(), expected.end())) return false;
            }
            const auto values = static_cast<std::int64_t>(before.numbers + before.texts);
            for (std::size_t r = 1; r < part.offsets.size(); ++r)
                if (whole.offsets.at(before.lists + r) != values + part.offsets[r]) return false;
            if (!part.steps.empty() &&
                whole.steps.at(i + 1) != static_cast<std::int64_t>(before.steps) + part.steps.back())
                return false;
            before.numbers += part.number_count, before.texts += part.texts.count;
            if (!part.offsets.empty()) before.lists += part.offsets.size() - 1;
            if (!part.steps.empty()) before.steps += static_cast<std::size_t>(part.steps.back());
        }
    }
    for (std::size_t k = 0; k < specs.size() && !together.fault; ++k) {
        const example::Column& whole = together.columns[k];
        if (whole.number_count != seen[k].numbers || whole.texts.count != seen[k].texts) return false;
        if (!whole.offsets.empty() && whole.offsets.size() != seen[k].lists + 1) return false;
        if (!whole.steps.empty() && whole.steps.size() != spans.payloads.size() + 1) return false;
    }
    return true;
}

} // namespace headrace::testing
