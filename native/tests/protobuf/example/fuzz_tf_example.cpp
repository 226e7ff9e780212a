// Scans arbitrary payloads for a schema, and decodes them under several schemas. Encoding and decoding the result again
// must not change it.
#include <cstdlib>
#include <optional>

#include "core/protobuf/example/decode.hpp"
#include "core/protobuf/example/encode.hpp"
#include "core/protobuf/example/scan.hpp"

using namespace headrace;
using example::Kind;

namespace {

example::Spec wish(const char* name, Kind kind, std::int64_t count, bool list) {
    example::Spec spec;
    spec.name = name;
    spec.kind = kind;
    spec.count = count;
    spec.list = list;
    return spec;
}

// The keys of the golden files, so that the corpus reaches value decoding.
std::vector<example::Spec> wishes(std::int64_t count) {
    std::vector<example::Spec> specs;
    for (const char* name : {"f", "score", "image"}) specs.push_back(wish(name, Kind::float32, count, false));
    for (const char* name : {"i", "ids", "label", "id", ""}) specs.push_back(wish(name, Kind::int64, count, false));
    for (const char* name : {"words", "name", "blob"}) specs.push_back(wish(name, Kind::bytes, count, false));
    specs.push_back(wish("x", Kind::number, -1, false));
    specs.push_back(wish("token", Kind::int64, count, true));
    specs.push_back(wish("weight", Kind::float32, count, true));
    return specs;
}

example::Source source_of(const example::Spec& spec, const example::Column& column) {
    example::Source source;
    source.name = spec.name;
    source.kind = spec.kind;
    source.list = spec.list;
    source.count = spec.count;
    source.numbers = column.numbers.data();
    source.number_count = column.number_count;
    source.texts = column.texts;
    source.steps = column.steps;
    source.offsets = column.offsets;
    return source;
}

void round_trip(const std::vector<example::Spec>& specs, const Spans& spans, const std::shared_ptr<Pool>& pool) {
    const example::Decoder decoder(specs);
    const auto columns = decoder.decode(spans, pool);
    std::vector<example::Source> sources;
    for (std::size_t k = 0; k < specs.size(); ++k)
        if (specs[k].kind != Kind::number) sources.push_back(source_of(specs[k], columns[k]));
    const auto encoded = example::encode(sources, spans.payloads.size(), 12, 4, 1, pool);
    Spans again;
    for (std::size_t i = 0; i < spans.payloads.size(); ++i)
        again.payloads.emplace_back(encoded.block.data() + encoded.starts[i],
                                    static_cast<std::size_t>(encoded.sizes[i]));
    const auto back = decoder.decode(again, pool);
    for (std::size_t k = 0; k < specs.size(); ++k) {
        if (specs[k].kind == Kind::number) continue;
        if (columns[k].number_count != back[k].number_count || columns[k].steps != back[k].steps ||
            columns[k].offsets != back[k].offsets || columns[k].texts.size() != back[k].texts.size())
            std::abort();
        const std::size_t item = specs[k].kind == Kind::float32 ? sizeof(float) : sizeof(std::int64_t);
        if (columns[k].number_count != 0 &&
            std::memcmp(columns[k].numbers.data(), back[k].numbers.data(), columns[k].number_count * item) != 0)
            std::abort();
        for (std::size_t t = 0; t < columns[k].texts.size(); ++t)
            if (!std::equal(columns[k].texts[t].begin(), columns[k].texts[t].end(), back[k].texts[t].begin(),
                            back[k].texts[t].end()))
                std::abort();
    }
}

/// A decoder's result for some records: their columns, or a fault.
struct Answer {
    std::vector<example::Column> columns;
    std::optional<FormatError> fault;
};

Answer answer(const example::Decoder& decoder, const Spans& spans, const std::shared_ptr<Pool>& pool) {
    try {
        return {decoder.decode(spans, pool), std::nullopt};
    } catch (const FormatError& fault) {
        return {{}, fault};
    }
}

/// Records that match the template are not parsed. The result must be the same as for each record alone.
void same_as_alone(std::vector<example::Spec> specs, const Spans& spans, const std::shared_ptr<Pool>& pool) {
    std::erase_if(specs, [](const example::Spec& spec) { return spec.list; });
    const example::Decoder decoder(specs);
    const Answer together = answer(decoder, spans, pool);
    std::vector<std::size_t> numbers(specs.size()), texts(specs.size());
    for (std::size_t i = 0; i < spans.payloads.size(); ++i) {
        Spans one;
        one.payloads = {spans.payloads[i]};
        const Answer alone = answer(decoder, one, pool);
        if (alone.fault) {
            if (!together.fault || together.fault->record != static_cast<std::int64_t>(i) ||
                together.fault->fault != alone.fault->fault || together.fault->offset != alone.fault->offset ||
                together.fault->feature != alone.fault->feature)
                std::abort();
            return;
        }
        if (together.fault) {
            if (together.fault->record <= static_cast<std::int64_t>(i)) std::abort();
            continue;
        }
        for (std::size_t k = 0; k < specs.size(); ++k) {
            const std::size_t item = specs[k].kind == Kind::float32 ? sizeof(float) : sizeof(std::int64_t);
            const example::Column& column = alone.columns[k];
            if (column.number_count != 0 && std::memcmp(together.columns[k].numbers.data() + numbers[k] * item,
                                                        column.numbers.data(), column.number_count * item) != 0)
                std::abort();
            numbers[k] += column.number_count;
            for (const Bytes& text : column.texts)
                if (together.columns[k].texts[texts[k]++].data() != text.data()) std::abort();
        }
    }
    for (std::size_t k = 0; k < specs.size(); ++k)
        if (!together.fault &&
            (together.columns[k].number_count != numbers[k] || together.columns[k].texts.size() != texts[k]))
            std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const auto pool = std::make_shared<Pool>(std::size_t{1} << 20);
    const Bytes all(reinterpret_cast<const std::byte*>(data), size);
    Spans spans;
    spans.payloads = {all, all.first(size / 2), all};
    example::Scanner scanner;
    scanner.add(spans);
    Spans alike; // equal lengths and, where the fuzzer repeats itself, equal templates
    alike.payloads = {all.first(size / 2), all.first(size / 2), all.subspan(size - size / 2), all.first(size / 2),
                      all.subspan(size - size / 2)};
    for (const std::int64_t count : {-1, 1, 0}) {
        same_as_alone(wishes(count), alike, pool);
        try {
            round_trip(wishes(count), spans, pool);
        } catch (const FormatError&) {}
    }
    return 0;
}
