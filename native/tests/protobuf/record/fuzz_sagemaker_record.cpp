// Decodes arbitrary bytes, as one record and as two readings of one. Every Record must be scannable, and decoded
// columns must survive encoding and decoding.
#include <cstdlib>
#include <cstring>

#include "core/protobuf/record/decode.hpp"
#include "core/protobuf/record/encode.hpp"
#include "core/protobuf/record/scan.hpp"

using namespace headrace;
using namespace headrace::sagemaker;

namespace {

const auto pool = std::make_shared<Pool>(0);

void require(bool good) {
    if (!good) std::abort();
}

/// A spec for a scanned key: sparse if it has keys, else with a varying number of values.
Spec spec_for(const KeyFacts& facts) {
    Spec spec{facts.place, facts.key, Kind::none, Layout::text, -1, {}, false};
    if (facts.place != Place::feature && facts.place != Place::label) return spec;
    for (std::size_t kind = 1; kind < kinds; ++kind)
        if (facts.held[kind] != 0) spec.kind = static_cast<Kind>(kind);
    if (spec.kind == Kind::none) spec.kind = Kind::float32;
    spec.layout = facts.sparse + facts.shape_only != 0 && spec.kind != Kind::bytes ? Layout::sparse : Layout::varying;
    return spec;
}

Source source_of(const Spec& spec, const Column& column) {
    Source source{.place = spec.place,
                  .key = spec.key,
                  .kind = spec.kind,
                  .count = spec.layout == Layout::text ? 1 : -1,
                  .offsets = column.offsets};
    source.numbers = column.numbers.data();
    source.number_count = column.number_count;
    source.texts = column.texts;
    source.sparse = spec.layout == Layout::sparse;
    source.keys = column.keys.data();
    source.wide_keys = column.wide;
    source.key_count = column.number_count;
    source.width = column.width;
    return source;
}

bool same(const Spec& spec, const Column& a, const Column& b) {
    const std::size_t size = a.number_count * size_of(spec.kind);
    bool equal = a.number_count == b.number_count && a.offsets == b.offsets && a.texts.size() == b.texts.size() &&
                 a.width == b.width;
    equal = equal && (size == 0 || std::memcmp(a.numbers.data(), b.numbers.data(), size) == 0);
    for (std::size_t i = 0; equal && i < a.texts.size(); ++i)
        equal = a.texts[i].size() == b.texts[i].size() &&
                (a.texts[i].empty() || std::memcmp(a.texts[i].data(), b.texts[i].data(), a.texts[i].size()) == 0);
    return equal;
}

void round_trip(const Spans& spans, const std::vector<KeyFacts>& keys) {
    std::vector<Spec> specs;
    for (const KeyFacts& facts : keys) specs.push_back(spec_for(facts));
    const Decoder decoder(specs);
    std::vector<Column> columns;
    try {
        columns = decoder.decode(spans, pool);
    } catch (const FormatError& error) {
        require(error.record == 0);
        return;
    }
    std::vector<Source> sources;
    for (std::size_t k = 0; k < specs.size(); ++k) sources.push_back(source_of(specs[k], columns[k]));
    const proto::Payloads encoded = encode(sources, 1, 8, 0, 4, pool);
    Spans again;
    again.payloads = {Bytes(encoded.block.data() + encoded.starts[0], static_cast<std::size_t>(encoded.sizes[0]))};
    require(is_record(again.payloads[0]));
    const std::vector<Column> second = decoder.decode(again, pool);
    for (std::size_t k = 0; k < specs.size(); ++k) require(same(specs[k], columns[k], second[k]));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Bytes payload = std::as_bytes(std::span(data, size));
    Spans spans;
    spans.payloads = {payload};
    if (size % 2 == 1) spans.alternatives = {{0, payload.subspan(size / 2)}};
    Scanner scanner;
    scanner.add(spans);
    if (scanner.rejected() == 0) round_trip(spans, scanner.keys());
    const Decoder usual({{Place::feature, "values", Kind::float32, Layout::fixed, 2, {2}, true},
                         {Place::label, "values", Kind::int32, Layout::varying, -1, {-1, -1, 3}, false},
                         {Place::feature, "sparse", Kind::float64, Layout::sparse, 30, {}, false}});
    try {
        (void)usual.decode(spans, pool);
    } catch (const FormatError&) {
        return 0;
    }
    return 0;
}
