#include <nanobind/stl/string.h>

#include "bind/support.hpp"
#include "core/protobuf/record/decode.hpp"
#include "core/protobuf/record/encode.hpp"
#include "core/protobuf/record/scan.hpp"
#include "core/text/strings.hpp"

namespace headrace::bind {
namespace {

using sagemaker::Kind;
using sagemaker::Layout;
using sagemaker::Place;

std::string string_of(nb::handle text) {
    const auto bytes = nb::cast<nb::bytes>(text);
    return {bytes.c_str(), bytes.size()};
}

Place place_of(int number) {
    if (number < 1 || number > 5)
        throw nb::value_error("place is 1 (features), 2 (label), 3 (uid), 4 (metadata) or 5 (configuration)");
    return static_cast<Place>(number);
}

Kind kind_of(int number) {
    if (number < 0 || number > 4)
        throw nb::value_error("kind is 0 (a string), 1 (float32), 2 (float64), 3 (int32) or 4 (bytes)");
    return static_cast<Kind>(number);
}

// (place, key, kind, layout, count, shape, required)
sagemaker::Spec spec_of(nb::handle item) {
    const auto parts = nb::cast<nb::tuple>(item);
    sagemaker::Spec spec;
    spec.place = place_of(nb::cast<int>(parts[0]));
    spec.key = string_of(parts[1]);
    spec.kind = kind_of(nb::cast<int>(parts[2]));
    const int layout = nb::cast<int>(parts[3]);
    if (layout < 0 || layout > 3) throw nb::value_error("layout is 0 (fixed), 1 (varying), 2 (sparse) or 3 (text)");
    spec.layout = static_cast<Layout>(layout);
    spec.count = nb::cast<std::int64_t>(parts[4]);
    for (nb::handle axis : nb::cast<nb::tuple>(parts[5])) spec.shape.push_back(nb::cast<std::int64_t>(axis));
    spec.required = nb::cast<bool>(parts[6]);
    const bool is_string = spec.layout == Layout::text;
    if (is_string != (spec.kind == Kind::none) || is_string != (static_cast<int>(spec.place) > 2))
        throw nb::value_error("a string has kind 0 and layout 3");
    if (spec.layout == Layout::fixed && spec.count < 0) throw nb::value_error("a fixed column has a count");
    if (spec.layout == Layout::sparse && spec.kind == Kind::bytes)
        throw nb::value_error("a sparse column holds numbers");
    return spec;
}

nb::dlpack::dtype dtype_of(Kind kind) {
    return kind == Kind::float32   ? nb::dtype<float>()
           : kind == Kind::float64 ? nb::dtype<double>()
                                   : nb::dtype<std::int32_t>();
}

nb::object int64_array(const std::vector<std::int64_t>& numbers) {
    Pool::Block block = batch_pool()->take(numbers.size() * sizeof(std::int64_t));
    if (!numbers.empty()) std::memcpy(block.data(), numbers.data(), numbers.size() * sizeof(std::int64_t));
    return to_numpy(std::move(block), nb::dtype<std::int64_t>(), {numbers.size()});
}

nb::object array_or_none(const std::vector<std::int64_t>& numbers) {
    return numbers.empty() ? nb::none() : int64_array(numbers);
}

nb::object bytes_list(const std::vector<Bytes>& texts) {
    nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(texts.size())));
    if (!list.is_valid()) throw nb::python_error();
    for (std::size_t i = 0; i < texts.size(); ++i) {
        PyObject* const bytes = PyBytes_FromStringAndSize(reinterpret_cast<const char*>(texts[i].data()),
                                                          static_cast<Py_ssize_t>(texts[i].size()));
        if (bytes == nullptr) throw nb::python_error();
        PyList_SetItem(list.ptr(), static_cast<Py_ssize_t>(i), bytes);
    }
    return list;
}

/// Data, offsets, and the first value that is not UTF-8 or -1.
nb::object texts_of(const std::vector<Bytes>& values) {
    StringBlocks blocks;
    std::optional<std::size_t> not_utf8;
    {
        const nb::gil_scoped_release release;
        blocks = join_values(values, batch_pool());
        not_utf8 = first_not_utf8(blocks.view());
    }
    const std::size_t size = blocks.size, count = blocks.count;
    return nb::make_tuple(to_numpy(std::move(blocks.data), nb::dtype<std::uint8_t>(), {size}),
                          to_numpy(std::move(blocks.offsets), nb::dtype<std::int64_t>(), {count + 1}),
                          not_utf8 ? static_cast<std::int64_t>(*not_utf8) : -1);
}

nb::tuple column_of(const sagemaker::Spec& spec, sagemaker::Column& column) {
    nb::object values = sagemaker::size_of(spec.kind) == 0
                            ? texts_of(column.texts)
                            : to_numpy(std::move(column.numbers), dtype_of(spec.kind), {column.number_count});
    nb::object keys = nb::none();
    if (spec.layout == Layout::sparse)
        keys = to_numpy(std::move(column.keys), column.wide ? nb::dtype<std::int64_t>() : nb::dtype<std::int32_t>(),
                        {column.number_count});
    return nb::make_tuple(values, array_or_none(column.offsets), keys, column.width, array_or_none(column.shapes),
                          array_or_none(column.absent));
}

nb::list decode(const sagemaker::Decoder& decoder, const HeldSpans& held, unsigned threads, std::size_t least_bytes) {
    std::vector<sagemaker::Column> columns;
    {
        const nb::gil_scoped_release release;
        columns = decoder.decode(held.spans, batch_pool(), threads, least_bytes);
    }
    nb::list out;
    for (std::size_t k = 0; k < columns.size(); ++k) out.append(column_of(decoder.specs()[k], columns[k]));
    return out;
}

template <typename Range> nb::tuple tuple_of(const Range& numbers) {
    nb::list out;
    for (const auto number : numbers) out.append(number);
    return nb::tuple(out);
}

nb::list facts(const sagemaker::Scanner& scanner) {
    const auto least = [](std::uint64_t number) { return number == UINT64_MAX ? 0 : number; };
    nb::list out;
    for (const sagemaker::KeyFacts& key : scanner.keys()) {
        nb::dict one;
        one["place"] = static_cast<int>(key.place);
        one["key"] = nb::bytes(key.key.data(), key.key.size());
        one["records"] = key.records;
        one["kinds"] = tuple_of(key.held);
        one["sparse"] = key.sparse;
        one["shape_only"] = key.shape_only;
        one["fewest"] = least(key.fewest);
        one["most"] = key.most;
        one["shaped"] = key.shaped;
        one["same_rank"] = key.same_rank;
        one["shortest"] = tuple_of(key.shortest);
        one["longest"] = tuple_of(key.longest);
        one["narrowest"] = least(key.narrowest);
        one["widest"] = key.widest;
        one["sound"] = key.sound;
        one["texts"] = key.texts;
        one["plain_text"] = key.plain_text;
        one["images"] = tuple_of(key.images);
        out.append(one);
    }
    return out;
}

using Numbers = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// The inputs of one call of encode, kept alive while the GIL is released.
struct Inputs {
    std::vector<sagemaker::Source> sources;
    std::vector<Numbers> numbers;
    std::vector<Buffer> buffers;

    // (place, key, kind, count, offsets, values, keys, width, shape, shapes)
    void add(nb::handle item) {
        const auto parts = nb::cast<nb::tuple>(item);
        sagemaker::Source source;
        source.place = place_of(nb::cast<int>(parts[0]));
        source.key = string_of(parts[1]);
        source.kind = kind_of(nb::cast<int>(parts[2]));
        source.count = nb::cast<std::int64_t>(parts[3]);
        source.offsets = integers_from(parts[4]);
        if (sagemaker::size_of(source.kind) == 0) {
            const auto arrays = nb::cast<nb::tuple>(parts[5]);
            const auto offsets = nb::cast<Indices>(arrays[1]);
            const StringsView strings{buffers.emplace_back(arrays[0]).bytes(), {offsets.data(), offsets.shape(0)}};
            source.texts.reserve(strings.count());
            for (std::size_t k = 0; k < strings.count(); ++k) source.texts.push_back(strings.at(k));
        } else {
            const Numbers& values = array_of(parts[5], dtype_of(source.kind));
            source.numbers = static_cast<const std::byte*>(values.data());
            source.number_count = values.shape(0);
        }
        if (!parts[6].is_none()) add_keys(source, parts[6]);
        source.width = nb::cast<std::uint64_t>(parts[7]);
        for (nb::handle axis : nb::cast<nb::tuple>(parts[8])) source.shape.push_back(nb::cast<std::uint64_t>(axis));
        if (!parts[9].is_none()) {
            const auto shapes =
                nb::cast<nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>>(parts[9]);
            source.rank = shapes.shape(1);
            source.shapes.assign(shapes.data(), shapes.data() + shapes.shape(0) * shapes.shape(1));
        }
        sources.push_back(std::move(source));
    }

  private:
    void add_keys(sagemaker::Source& source, nb::handle given) {
        numbers.push_back(nb::cast<Numbers>(given));
        const Numbers& keys = numbers.back();
        source.sparse = true;
        source.wide_keys = keys.dtype() == nb::dtype<std::int64_t>();
        if (!source.wide_keys && keys.dtype() != nb::dtype<std::int32_t>())
            throw nb::type_error("keys are int32 or int64");
        source.keys = static_cast<const std::byte*>(keys.data());
        source.key_count = keys.shape(0);
    }

    const Numbers& array_of(nb::handle given, nb::dlpack::dtype wanted) {
        numbers.push_back(nb::cast<Numbers>(given));
        if (numbers.back().dtype() != wanted) throw nb::type_error("numbers of another dtype than their kind");
        return numbers.back();
    }

    // Copied, so that it cannot change after validation.
    static std::vector<std::int64_t> integers_from(nb::handle given) {
        if (given.is_none()) return {};
        const auto integers = nb::cast<Indices>(given);
        return {integers.data(), integers.data() + integers.shape(0)};
    }
};

nb::tuple encode(nb::list columns, std::size_t n, std::size_t head, std::size_t tail, std::size_t align) {
    Inputs inputs;
    for (nb::handle column : columns) inputs.add(column);
    proto::Payloads encoded;
    {
        const nb::gil_scoped_release release;
        encoded = sagemaker::encode(inputs.sources, n, head, tail, align == 0 ? 1 : align, batch_pool());
    }
    return nb::make_tuple(to_numpy(std::move(encoded.block), nb::dtype<std::uint8_t>(), {encoded.size}),
                          int64_array(encoded.starts), int64_array(encoded.sizes));
}

nb::object array_copy(Kind kind, const sagemaker::Tensor& tensor) {
    const std::size_t count = sagemaker::count_values(tensor);
    Pool::Block block = batch_pool()->take(count * sagemaker::size_of(kind));
    sagemaker::copy_values(tensor, {block.data(), count * sagemaker::size_of(kind)});
    return to_numpy(std::move(block), dtype_of(kind), {count});
}

nb::object uint64_array(const sagemaker::Pieces& pieces) {
    if (pieces.empty()) return nb::none();
    std::vector<std::uint64_t> numbers;
    sagemaker::each_varint(pieces, [&](std::uint64_t number) { numbers.push_back(number); });
    const std::size_t size = numbers.size() * sizeof(std::uint64_t);
    Pool::Block block = batch_pool()->take(size);
    if (size != 0) std::memcpy(block.data(), numbers.data(), size);
    return to_numpy(std::move(block), nb::dtype<std::uint64_t>(), {numbers.size()});
}

nb::tuple value_of(const sagemaker::Entry& entry) {
    sagemaker::Tensor tensor;
    for (const auto& [value, at] : entry.values) sagemaker::merge_value(value, at, tensor);
    const int kind = static_cast<int>(tensor.kind);
    if (tensor.kind == Kind::none) return nb::make_tuple(kind, nb::none(), nb::none(), nb::none());
    if (tensor.kind != Kind::bytes)
        return nb::make_tuple(kind, array_copy(tensor.kind, tensor), uint64_array(tensor.keys),
                              uint64_array(tensor.shape));
    const Bytes type = tensor.content_type;
    nb::object text = type.data() == nullptr ? nb::none() : nb::object(nb::bytes(type.data(), type.size()));
    return nb::make_tuple(kind, bytes_list(tensor.values), text, nb::none());
}

nb::tuple parse(nb::object payload) {
    const Buffer buffer(payload);
    nb::dict maps[2];
    nb::object strings[3] = {nb::none(), nb::none(), nb::none()};
    sagemaker::Entry entry;
    sagemaker::walk(
        buffer.bytes(),
        [&](Place place, Bytes bytes, std::uint64_t offset) {
            sagemaker::read_entry(bytes, offset, entry);
            maps[static_cast<int>(place) - 1][nb::bytes(entry.key.data(), entry.key.size())] = value_of(entry);
        },
        [&](Place place, Bytes bytes) {
            strings[static_cast<int>(place) - 3] = nb::bytes(bytes.data(), bytes.size());
        });
    return nb::make_tuple(maps[0], maps[1], strings[0], strings[1], strings[2]);
}

} // namespace

void register_sagemaker_record(nb::module_& module) {
    nb::class_<sagemaker::Decoder>(module, "RecordDecoder", "Decodes payloads that are SageMaker Records into columns.")
        .def(
            "__init__",
            [](sagemaker::Decoder* self, nb::list specs) {
                std::vector<sagemaker::Spec> all;
                for (nb::handle spec : specs) all.push_back(spec_of(spec));
                new (self) sagemaker::Decoder(std::move(all));
            },
            nb::arg("specs"),
            nb::sig("def __init__(self, specs: list[tuple[int, bytes, int, int, int, tuple[int, ...], bool]]) -> None"),
            "Specs: (place 1 features | 2 label | 3 uid | 4 metadata | 5 configuration, key, kind 0 string | 1 float32 "
            "| 2 float64 | "
            "3 int32 | 4 bytes, layout 0 fixed | 1 varying | 2 sparse | 3 text, count or width or -1, axes or -1, "
            "required).")
        .def("decode", guarded(&decode), nb::arg("spans"), nb::arg("threads") = 1,
             nb::arg("least_bytes") = sagemaker::Decoder::usual_least_bytes,
             nb::sig("def decode(self, spans: Spans, threads: int = 1, least_bytes: int = ...) -> "
                     "list[tuple[typing.Any, numpy.typing.NDArray[numpy.int64] | None, typing.Any, int, "
                     "numpy.typing.NDArray[numpy.int64] | None, numpy.typing.NDArray[numpy.int64] | None]]"),
             "For each spec: concatenated values (an array; for text data, offsets and the first value that is not "
             "UTF-8 or -1), offsets, keys (int32 or int64), "
             "width, axis lengths, and the records without it. Sparse columns are decoded by up to `threads` threads, "
             "each on least_bytes of payloads or more.");
    nb::class_<sagemaker::Scanner>(module, "RecordScanner", "Collects the features in Records, to infer a schema.")
        .def(nb::init<>())
        .def("add", guarded([](sagemaker::Scanner& self, const HeldSpans& held) {
                 const nb::gil_scoped_release release;
                 self.add(held.spans);
             }),
             nb::arg("spans"), "Add some records.")
        .def_prop_ro("records", &sagemaker::Scanner::records, "The number of Records added.")
        .def_prop_ro("rejected", &sagemaker::Scanner::rejected, "The number of payloads that are not Records.")
        .def_prop_ro("keys", &facts, nb::for_getter(nb::sig("def keys(self) -> list[dict[str, typing.Any]]")),
                     "What was found for every place and key.");
    module.def(
        "encode_records", guarded(&encode), nb::arg("columns"), nb::arg("n"), nb::arg("head"), nb::arg("tail"),
        nb::arg("align") = 1,
        nb::sig(
            "def encode_records(columns: list[tuple[int, bytes, int, int, typing.Any, typing.Any, typing.Any, int, "
            "tuple[int, ...], "
            "typing.Any]], n: int, head: int, tail: int, align: int = 1) -> tuple[numpy.typing.NDArray[numpy.uint8], "
            "numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]]"),
        "Serialise n Records from columns (place, key, kind, count or -1, offsets, values, keys, width, shape, shapes) "
        "into one "
        "block: block, payload starts, payload sizes.");
    module.def("parse_record", guarded(&parse), nb::arg("payload"),
               nb::sig("def parse_record(payload: collections.abc.Buffer) -> tuple[dict[bytes, typing.Any], "
                       "dict[bytes, typing.Any], bytes | None, "
                       "bytes | None, bytes | None]"),
               "One Record: features and label (each key to (kind, values, keys, shape), with None for missing parts; "
               "for bytes (4, values, content type, None)), uid, metadata, configuration.");
    module.def(
        "record_payloads", guarded([](const HeldSpans& held) {
            std::vector<Bytes> readings;
            {
                const nb::gil_scoped_release release;
                for (std::size_t i = 0; i < held.spans.payloads.size(); ++i) {
                    held.spans.check(i);
                    readings.push_back(sagemaker::reading_of(held.spans, i));
                }
            }
            return bytes_list(readings);
        }),
        nb::arg("spans"), nb::sig("def record_payloads(spans: Spans) -> list[bytes]"),
        "Every payload, copied. If the frame allows two readings, the one that is a Record. Checksums are checked.");
    module.def("is_record", guarded([](nb::object payload) { return sagemaker::is_record(Buffer(payload).bytes()); }),
               nb::arg("payload"), nb::sig("def is_record(payload: collections.abc.Buffer) -> bool"),
               "Whether a whole payload is one Record.");
}

} // namespace headrace::bind
