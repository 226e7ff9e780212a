#include <nanobind/stl/string.h>

#include "bind/base/columns.hpp"
#include "bind/support.hpp"
#include "core/framing/json_depth.hpp"
#include "core/framing/lines.hpp"
#include "core/json/decode.hpp"
#include "core/json/encode.hpp"

namespace headrace::bind {
namespace {

/// (path, where None stands for the objects in a list, kind, depth of lists, least, most, exact, what a missing value
/// is)
json::Spec spec_of(nb::handle item) {
    const auto parts = nb::cast<nb::tuple>(item);
    const int kind = nb::cast<int>(parts[1]);
    if (kind < 1 || kind > static_cast<int>(json::Kind::text))
        throw nb::value_error("kind is 1 (int64), 2 (uint64), 3 (float64), 4 (bool) or 5 (text)");
    json::Spec spec;
    for (nb::handle key : nb::cast<nb::tuple>(parts[0])) {
        if (!key.is_none()) spec.path.push_back(nb::cast<std::string>(key));
        else if (!spec.path.empty()) spec.lists.push_back(spec.path.size() - 1);
        else throw nb::value_error("a list without a key");
    }
    spec.kind = static_cast<json::Kind>(kind);
    spec.depth = nb::cast<std::size_t>(parts[2]);
    constexpr std::size_t most_depth = json::Decoder::most_depth;
    if (spec.path.empty() || spec.path.size() > most_depth || spec.depth > most_depth)
        throw nb::value_error("a path of no keys, or nested too deeply");
    spec.least = nb::cast<std::int64_t>(parts[3]);
    spec.most = nb::cast<std::uint64_t>(parts[4]);
    spec.exact = nb::cast<bool>(parts[5]);
    spec.may_miss = !parts[6].is_none();
    if (!spec.may_miss) return spec;
    const auto fill = nb::cast<nb::bytes>(parts[6]);
    if (spec.depth != 0) return spec;
    if (spec.kind == json::Kind::text) spec.words.assign(fill.c_str(), fill.size());
    else if (fill.size() <= sizeof spec.fill) std::memcpy(&spec.fill, fill.c_str(), fill.size());
    else throw nb::value_error("a number of another size");
    return spec;
}

nb::object numbers_of(json::Column& column, json::Kind kind) {
    const nb::dlpack::dtype dtype = kind == json::Kind::int64     ? nb::dtype<std::int64_t>()
                                    : kind == json::Kind::uint64  ? nb::dtype<std::uint64_t>()
                                    : kind == json::Kind::float64 ? nb::dtype<double>()
                                                                  : nb::dtype<std::uint8_t>();
    return to_numpy(std::move(column.numbers), dtype, {column.values});
}

nb::object decode(const json::Decoder& decoder, nb::object buffers, std::optional<Which> which, Indices begins,
                  Indices ends, nb::handle strings) {
    const nb::object held = hold_buffers(std::move(buffers));
    const auto& all = nb::cast<const HeldBuffers&>(held);
    const std::size_t count = begins.shape(0);
    if (ends.shape(0) != count || (which && which->shape(0) != count))
        throw nb::value_error("which, begins and ends differ in length");
    (void)all.mapped(which ? which->data() : nullptr, count);
    std::vector<Bytes> lines(count);
    for (std::size_t i = 0; i < count; ++i) {
        const auto number = which ? static_cast<std::size_t>(which->data()[i]) : 0;
        const std::int64_t begin = begins.data()[i], end = ends.data()[i];
        if (number >= all.bytes.size() || begin < 0 || end < begin ||
            static_cast<std::uint64_t>(end) > all.bytes[number].size())
            throw nb::index_error("a range that is not in its buffer");
        lines[i] = all.bytes[number].subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    }
    std::optional<std::vector<json::Column>> columns;
    {
        const nb::gil_scoped_release release;
        columns = decoder.decode(lines, batch_pool());
    }
    if (!columns) return nb::none();
    std::vector<TextColumn> of_text;
    for (std::size_t k = 0; k < columns->size(); ++k)
        if (decoder.specs()[k].kind == json::Kind::text) of_text.push_back({&(*columns)[k].texts, true});
    std::vector<nb::object> texts = to_strings(of_text, strings);
    auto text = texts.begin();
    nb::list out;
    for (std::size_t k = 0; k < columns->size(); ++k) {
        const json::Kind kind = decoder.specs()[k].kind;
        json::Column& column = (*columns)[k];
        nb::list offsets;
        for (json::Column::Offsets& level : column.offsets)
            offsets.append(to_numpy(std::move(level.places), nb::dtype<std::int64_t>(), {level.count}));
        const nb::object values = kind == json::Kind::text ? std::move(*text++) : numbers_of(column, kind);
        out.append(nb::make_tuple(values, offsets));
    }
    return out;
}

/// Columns to write, whose memory is held here.
struct HeldSources {
    std::vector<json::Source> sources;
    std::vector<Buffer> buffers;
    std::vector<Indices> offsets;

    /// (key, kind, lists, numbers or (data, offsets)), where lists are lengths or offsets
    void add(nb::handle item) {
        const auto parts = nb::cast<nb::tuple>(item);
        const int kind = nb::cast<int>(parts[1]);
        if (kind < 1 || kind > static_cast<int>(json::Leaf::value)) throw nb::value_error("no such kind of values");
        json::Source source;
        const Bytes key = bytes_of(parts[0]);
        source.key = {reinterpret_cast<const char*>(key.data()), key.size()};
        source.leaf = static_cast<json::Leaf>(kind);
        for (nb::handle lists : nb::cast<nb::list>(parts[2])) {
            if (source.lists.size() == json::Decoder::most_depth) throw nb::value_error("lists nested too deeply");
            if (nb::isinstance<nb::int_>(lists)) source.lists.push_back({nb::cast<std::size_t>(lists), nullptr, 0});
            else {
                const std::span<const std::int64_t> places = offsets_of(lists);
                source.lists.push_back({0, places.data(), places.size() - 1});
            }
        }
        if (source.leaf == json::Leaf::text || source.leaf == json::Leaf::value) {
            const auto text = nb::cast<nb::tuple>(parts[3]);
            source.texts = {bytes_of(text[0]), offsets_of(text[1])};
        } else {
            source.numbers = bytes_of(parts[3]);
        }
        sources.push_back(std::move(source));
    }

  private:
    Bytes bytes_of(nb::handle object) { return buffers.emplace_back(object).bytes(); }

    std::span<const std::int64_t> offsets_of(nb::handle object) {
        const Indices& places = offsets.emplace_back(nb::cast<Indices>(object));
        if (places.shape(0) == 0) throw nb::value_error("offsets are one more than there are values");
        return {places.data(), places.shape(0)};
    }
};

nb::object encode(nb::list columns, std::size_t rows) {
    HeldSources held;
    for (nb::handle item : columns) held.add(item);
    std::optional<json::Lines> lines;
    {
        const nb::gil_scoped_release release;
        lines = json::encode(held.sources, rows, batch_pool());
    }
    if (!lines) return nb::none();
    return to_numpy(std::move(lines->block), nb::dtype<std::uint8_t>(), {lines->size});
}

} // namespace

void register_json(nb::module_& module) {
    module.def("json_too_deep", guarded([](nb::object text, std::uint64_t most) {
                   const Buffer buffer(text);
                   return json_too_deep(buffer.bytes(), most);
               }),
               nb::arg("text"), nb::arg("most"),
               nb::sig("def json_too_deep(text: collections.abc.Buffer, most: int) -> int"),
               "The first byte of JSON text where lists and objects are nested more than `most` levels deep; -1 if "
               "there is none.");
    module.def("json_not_objects", guarded([](nb::object lines, std::uint64_t most) {
                   const Buffer buffer(lines);
                   return json_not_objects(buffer.bytes(), most);
               }),
               nb::arg("lines"), nb::arg("most"),
               nb::sig("def json_not_objects(lines: collections.abc.Buffer, most: int) -> int"),
               "The first byte at which lines of JSON are anything but one object each, nested at most `most` levels "
               "deep; -1 if there is none.");
    module.def("scan_lines", guarded([](nb::object data, std::uint64_t start, std::uint64_t stop) {
                   const Buffer buffer(data);
                   Scan found;
                   {
                       const nb::gil_scoped_release release;
                       found = lines::scan(buffer.bytes(), start, stop);
                   }
                   return scanned(found);
               }),
               nb::arg("data"), nb::arg("start"), nb::arg("stop"),
               nb::sig("def scan_lines(data: collections.abc.Buffer, start: int, stop: int) -> "
                       "tuple[numpy.typing.NDArray[numpy.int64], int]"),
               "Starts of the lines that begin in [start, stop), and where the next one begins. Lines of blanks do not "
               "count.");
    module.def("find_line", guarded([](nb::object data, std::uint64_t at) {
                   const Buffer buffer(data);
                   const nb::gil_scoped_release release;
                   return lines::find(buffer.bytes(), at);
               }),
               nb::arg("data"), nb::arg("at"), nb::sig("def find_line(data: collections.abc.Buffer, at: int) -> int"),
               "Where the first line at or after `at` begins; the end of the data if there is none.");
    module.def(
        "encode_json_lines", guarded(&encode), nb::arg("columns"), nb::arg("rows"),
        nb::sig("def encode_json_lines(columns: list[tuple[bytes, int, list[typing.Any], typing.Any]], rows: int) "
                "-> numpy.typing.NDArray[numpy.uint8] | None"),
        "Columns as lines of JSON. They are (key in JSON, kind, lists, values), kinds 1 to 8 int8 to uint64, "
        "9 float32, 10 float64, 11 bool, 12 text, 13 text that is JSON. `lists` has for each depth the length of "
        "the lists or their offsets, outermost first. Values are a flat array, or data and offsets of texts. "
        "None where a number is infinite, a text is not UTF-8, or a list or text is outside its column.");
    nb::class_<json::Decoder>(module, "JsonDecoder",
                              "Decodes lines of JSON into columns. Specs are (path, kind, depth of lists, least, most, "
                              "exact, missing), where None in the path stands for the objects in a list, kinds "
                              "1 int64, 2 uint64, 3 float64, 4 bool, 5 text. `missing` is the text or the bytes of the "
                              "number that stands for "
                              "a missing value; None: none may miss. With `only_known`, a line is not plain if it has "
                              "another key with a value.")
        .def(
            "__init__",
            [](json::Decoder* self, nb::list specs, bool only_known) {
                std::vector<json::Spec> wanted;
                for (nb::handle item : specs) wanted.push_back(spec_of(item));
                new (self) json::Decoder(std::move(wanted), only_known);
            },
            nb::arg("specs"), nb::arg("only_known") = false,
            nb::sig("def __init__(self, specs: list[tuple[tuple[str | None, ...], int, int, int, int, bool, bytes | "
                    "None]], "
                    "only_known: bool = False) -> None"))
        .def("decode", guarded(&decode), nb::arg("buffers"), nb::arg("which").none(), nb::arg("begins"),
             nb::arg("ends"), nb::arg("strings"),
             nb::sig("def decode(self, buffers: Buffers | list[typing.Any], which: "
                     "numpy.typing.NDArray[numpy.int32] | None, begins: numpy.typing.NDArray[numpy.int64], ends: "
                     "numpy.typing.NDArray[numpy.int64], strings: type) -> list[tuple[typing.Any, list[typing.Any]]] | "
                     "None"),
             "For each spec its values (of texts an object of the class `strings`) and, for each level of lists, where "
             "each begins. The lines are the bytes [begins[i], ends[i]) of buffers[which[i]] (None: the first). None "
             "where a line is not plain: then "
             "another reader must look at it.");
}

} // namespace headrace::bind
