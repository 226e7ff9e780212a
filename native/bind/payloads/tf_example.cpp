#include <nanobind/stl/string.h>

#include <utility>

#include "bind/base/columns.hpp"
#include "bind/support.hpp"
#include "core/protobuf/example/decode.hpp"
#include "core/protobuf/example/encode.hpp"
#include "core/protobuf/example/scan.hpp"
#include "core/text/strings.hpp"

namespace headrace::bind {
namespace {

// Keys that are not UTF-8 are handled like Python's file names: each bad byte becomes a lone surrogate.
std::string string_of(nb::handle text) {
    const nb::object encoded = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape"));
    if (!encoded.is_valid()) throw nb::python_error();
    const auto bytes = nb::cast<nb::bytes>(encoded);
    return {bytes.c_str(), bytes.size()};
}

constexpr int text_kind = 5; ///< Bytes that are UTF-8.

example::Kind kind_of(int number) {
    if (number < 1 || number > 5)
        throw nb::value_error("kind is 1 (bytes), 2 (float32), 3 (int64), 4 (either number, to decode) or 5 (text)");
    return number == text_kind ? example::Kind::bytes : static_cast<example::Kind>(number);
}

// (name, kind, count, is_list, default). The default is None, the numbers as bytes, or a list of bytes.
example::Spec spec_of(nb::handle item) {
    const auto parts = nb::cast<nb::tuple>(item);
    example::Spec spec;
    spec.name = string_of(parts[0]);
    spec.kind = kind_of(nb::cast<int>(parts[1]));
    spec.text = nb::cast<int>(parts[1]) == text_kind;
    spec.count = nb::cast<std::int64_t>(parts[2]);
    spec.list = nb::cast<bool>(parts[3]);
    const nb::object given = parts[4];
    if (given.is_none()) return spec;
    spec.has_default = true;
    if (spec.kind == example::Kind::bytes) {
        for (nb::handle text : nb::cast<nb::list>(given)) {
            const auto bytes = nb::cast<nb::bytes>(text);
            spec.texts.emplace_back(bytes.c_str(), bytes.size());
        }
        if (std::cmp_not_equal(spec.texts.size(), spec.count)) throw nb::value_error("a default of another size");
    } else {
        const Buffer buffer(given);
        spec.numbers.assign(buffer.bytes().begin(), buffer.bytes().end());
        const std::size_t item_size = spec.kind == example::Kind::float32 ? sizeof(float) : sizeof(std::int64_t);
        if (spec.count < 0 || spec.numbers.size() != static_cast<std::size_t>(spec.count) * item_size)
            throw nb::value_error("a default of another size");
    }
    return spec;
}

nb::object offsets_array(const std::vector<std::int64_t>& offsets) {
    if (offsets.empty()) return nb::none();
    Pool::Block block = batch_pool()->take(offsets.size() * sizeof(std::int64_t));
    std::memcpy(block.data(), offsets.data(), offsets.size() * sizeof(std::int64_t));
    return to_numpy(std::move(block), nb::dtype<std::int64_t>(), {offsets.size()});
}

nb::object numbers_of(example::Kind kind, example::Column& column) {
    const nb::dlpack::dtype dtype = kind == example::Kind::float32  ? nb::dtype<float>()
                                    : kind == example::Kind::number ? nb::dtype<double>()
                                                                    : nb::dtype<std::int64_t>();
    return to_numpy(std::move(column.numbers), dtype, {column.number_count});
}

/// Data, offsets, and the first value that is not UTF-8.
nb::object faulty_texts(StringBlocks texts, std::size_t not_utf8) {
    const std::size_t size = texts.size, count = texts.count;
    return nb::make_tuple(to_numpy(std::move(texts.data), nb::dtype<std::uint8_t>(), {size}),
                          to_numpy(std::move(texts.offsets), nb::dtype<std::int64_t>(), {count + 1}), not_utf8);
}

/// A decoder, and the template of the records that it read last. The GIL protects the template, not a lock, so a fork
/// finds it whole.
struct HeldDecoder {
    example::Decoder decoder;
    std::shared_ptr<const example::RecordTemplate> usual;
};

nb::list decode(HeldDecoder& held_decoder, const HeldSpans& held, nb::handle strings) {
    const example::Decoder& decoder = held_decoder.decoder;
    std::shared_ptr<const example::RecordTemplate> usual = held_decoder.usual;
    std::vector<example::Column> columns;
    std::vector<std::optional<std::size_t>> not_utf8(decoder.specs().size());
    {
        const nb::gil_scoped_release release;
        columns = decoder.decode(held.spans, batch_pool(), usual);
        for (std::size_t k = 0; k < columns.size(); ++k)
            if (decoder.specs()[k].text) not_utf8[k] = first_not_utf8(columns[k].texts.view());
    }
    held_decoder.usual = std::move(usual);
    const auto is_sound_text = [&](std::size_t k) {
        return decoder.specs()[k].kind == example::Kind::bytes && !not_utf8[k];
    };
    std::vector<TextColumn> sound;
    for (std::size_t k = 0; k < columns.size(); ++k)
        if (is_sound_text(k)) sound.push_back({&columns[k].texts, decoder.specs()[k].text});
    std::vector<nb::object> texts = to_strings(sound, strings);
    auto text = texts.begin();
    nb::list out;
    for (std::size_t k = 0; k < columns.size(); ++k) {
        const example::Kind kind = decoder.specs()[k].kind;
        const nb::object values = is_sound_text(k) ? std::move(*text++)
                                  : not_utf8[k]    ? faulty_texts(std::move(columns[k].texts), *not_utf8[k])
                                                   : numbers_of(kind, columns[k]);
        out.append(nb::make_tuple(values, offsets_array(columns[k].steps), offsets_array(columns[k].offsets)));
    }
    return out;
}

nb::list facts(const example::Scanner& scanner) {
    nb::list out;
    for (const example::KeyFacts& key : scanner.keys()) {
        nb::dict one;
        one["name"] = nb::bytes(key.name.data(), key.name.size());
        one["list"] = key.list;
        one["records"] = key.records;
        one["kinds"] = nb::make_tuple(key.kinds[0], key.kinds[1], key.kinds[2], key.kinds[3]);
        one["fewest"] = key.fewest == UINT64_MAX ? 0 : key.fewest;
        one["most"] = key.most;
        one["fewest_steps"] = key.fewest_steps == UINT64_MAX ? 0 : key.fewest_steps;
        one["most_steps"] = key.most_steps;
        one["texts"] = key.texts;
        one["plain_text"] = key.plain_text;
        one["images"] = nb::make_tuple(key.images[0], key.images[1], key.images[2], key.images[3], key.images[4],
                                       key.images[5], key.images[6]);
        out.append(one);
    }
    return out;
}

using Numbers = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// The inputs of one call of encode, kept alive while the GIL is released.
struct Inputs {
    std::vector<example::Source> sources;
    std::vector<Numbers> numbers;
    std::vector<Buffer> buffers;

    void add(nb::handle item) {
        const auto parts = nb::cast<nb::tuple>(item);
        example::Source source;
        source.name = string_of(parts[0]);
        source.kind = kind_of(nb::cast<int>(parts[1]));
        if (source.kind == example::Kind::number) throw nb::value_error("kind 4 cannot be encoded");
        source.count = nb::cast<std::int64_t>(parts[2]);
        source.list = nb::cast<bool>(parts[3]);
        if (source.kind == example::Kind::bytes) {
            const auto arrays = nb::cast<nb::tuple>(parts[4]);
            const auto offsets = nb::cast<Indices>(arrays[1]);
            const StringsView strings{buffers.emplace_back(arrays[0]).bytes(), {offsets.data(), offsets.shape(0)}};
            source.texts.reserve(strings.count());
            for (std::size_t k = 0; k < strings.count(); ++k) source.texts.push_back(strings.at(k));
        } else {
            numbers.push_back(nb::cast<Numbers>(parts[4]));
            const nb::dlpack::dtype wanted =
                source.kind == example::Kind::float32 ? nb::dtype<float>() : nb::dtype<std::int64_t>();
            if (numbers.back().dtype() != wanted) throw nb::type_error("numbers are float32 or int64");
            source.numbers = static_cast<const std::byte*>(numbers.back().data());
            source.number_count = numbers.back().shape(0);
        }
        source.steps = offsets_from(parts[5]);
        source.offsets = offsets_from(parts[6]);
        sources.push_back(std::move(source));
    }

    // Copied, so that it cannot change after validation.
    static std::vector<std::int64_t> offsets_from(nb::handle given) {
        if (given.is_none()) return {};
        const auto offsets = nb::cast<Indices>(given);
        return {offsets.data(), offsets.data() + offsets.shape(0)};
    }
};

nb::tuple encode(nb::list columns, std::size_t n, std::size_t head, std::size_t tail, std::size_t align) {
    Inputs inputs;
    for (nb::handle column : columns) inputs.add(column);
    proto::Payloads encoded;
    {
        const nb::gil_scoped_release release;
        encoded = example::encode(std::move(inputs.sources), n, head, tail, align == 0 ? 1 : align, batch_pool());
    }
    const auto array = [n](const std::vector<std::int64_t>& values) {
        Pool::Block block = batch_pool()->take(n * sizeof(std::int64_t));
        if (n != 0) std::memcpy(block.data(), values.data(), n * sizeof(std::int64_t));
        return to_numpy(std::move(block), nb::dtype<std::int64_t>(), {n});
    };
    return nb::make_tuple(to_numpy(std::move(encoded.block), nb::dtype<std::uint8_t>(), {encoded.size}),
                          array(encoded.starts), array(encoded.sizes));
}

} // namespace

void register_tf_example(nb::module_& module) {
    nb::class_<HeldDecoder>(module, "ExampleDecoder",
                            "Decodes tf.train.Example and SequenceExample payloads into columns.")
        .def(
            "__init__",
            [](HeldDecoder* self, nb::list specs, nb::object sole, nb::object sole_features) {
                std::vector<example::Spec> all;
                for (nb::handle spec : specs) {
                    all.push_back(spec_of(spec));
                    const nb::object name = nb::cast<nb::tuple>(spec)[0];
                    const nb::object& names = all.back().list ? sole : sole_features;
                    all.back().sole = nb::cast<bool>(names.attr("__contains__")(name));
                }
                new (self) HeldDecoder{example::Decoder(std::move(all)), nullptr};
            },
            nb::arg("specs"), nb::arg("sole") = nb::tuple(), nb::arg("sole_features") = nb::tuple(),
            nb::sig("def __init__(self, specs: list[tuple[str, int, int, bool, typing.Any]], sole: set[str] | "
                    "frozenset[str] = frozenset(), sole_features: set[str] | frozenset[str] = frozenset()) -> None"),
            "Specs: (name, kind 1 bytes | 2 float32 | 3 int64 | 4 either number as float64 | 5 text, count or -1, is a "
            "feature list, default or None). A feature that has the name of a feature list in `sole`, which is not "
            "there, is a fault, and so is a feature list with steps that has the name of one of `sole_features`.")
        .def("decode", guarded(&decode), nb::arg("spans"), nb::arg("strings"),
             nb::sig("def decode(self, spans: Spans, strings: type) -> list[tuple[typing.Any, "
                     "numpy.typing.NDArray[numpy.int64] | None, numpy.typing.NDArray[numpy.int64] | None]]"),
             "For each spec: concatenated values (an array; of texts an object of the class `strings`, or data, "
             "offsets and the first value that is not UTF-8), step offsets of feature lists, and value offsets if "
             "counts vary.");
    nb::class_<example::Scanner>(module, "ExampleScanner", "Collects the features in records, to infer a schema.")
        .def(nb::init<>())
        .def("add", guarded([](example::Scanner& self, const HeldSpans& held) {
                 const nb::gil_scoped_release release;
                 self.add(held.spans);
             }),
             nb::arg("spans"), "Add some records.")
        .def_prop_ro("is_message", &example::Scanner::is_message,
                     "False as soon as a payload is not a protobuf message.")
        .def_prop_ro("records", &example::Scanner::records, "The number of records added.")
        .def_prop_ro("keys", &facts, nb::for_getter(nb::sig("def keys(self) -> list[dict[str, typing.Any]]")),
                     "What was found for every key.");
    module.def(
        "encode_examples", guarded(&encode), nb::arg("columns"), nb::arg("n"), nb::arg("head"), nb::arg("tail"),
        nb::arg("align") = 1,
        nb::sig(
            "def encode_examples(columns: list[tuple[str, int, int, bool, typing.Any, typing.Any, typing.Any]], n: "
            "int, head: int, "
            "tail: int, align: int = 1) -> tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64], "
            "numpy.typing.NDArray[numpy.int64]]"),
        "Serialise n examples from columns (name, kind, count or -1, is a feature list, values, steps, offsets) into "
        "one block: "
        "block, payload starts, payload sizes.");
}

} // namespace headrace::bind
