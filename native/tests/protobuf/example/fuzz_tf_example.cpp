// Scans arbitrary payloads for a schema, and decodes them under several schemas. Encoding and decoding the result again
// must not change it.
#include <cstdlib>

#include "core/protobuf/example/decode.hpp"
#include "core/protobuf/example/encode.hpp"
#include "core/protobuf/example/scan.hpp"
#include "protobuf/example/samples.hpp"

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
    for (std::size_t t = 0; t < column.texts.count; ++t) source.texts.push_back(column.texts.view().at(t));
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
            columns[k].offsets != back[k].offsets || columns[k].texts.count != back[k].texts.count)
            std::abort();
        const std::size_t item = specs[k].kind == Kind::float32 ? sizeof(float) : sizeof(std::int64_t);
        if (columns[k].number_count != 0 &&
            std::memcmp(columns[k].numbers.data(), back[k].numbers.data(), columns[k].number_count * item) != 0)
            std::abort();
        for (std::size_t t = 0; t < columns[k].texts.count; ++t) {
            const Bytes text = columns[k].texts.view().at(t), same = back[k].texts.view().at(t);
            if (!std::equal(text.begin(), text.end(), same.begin(), same.end())) std::abort();
        }
    }
}

/// Records that match the template are not parsed. The result must be the same as for each record alone.
void same_as_alone(const std::vector<example::Spec>& specs, const Spans& spans, const std::shared_ptr<Pool>& pool) {
    const example::Decoder decoder(specs);
    std::shared_ptr<const example::RecordTemplate> usual;
    for (int round = 0; round < 2; ++round)
        if (!headrace::testing::is_same_as_alone(decoder, spans, pool, usual)) std::abort();
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
