#include <array>
#include <utility>

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "bind/base/columns.hpp"
#include "bind/support.hpp"
#include "core/csv/decode.hpp"
#include "core/csv/encode.hpp"
#include "core/csv/examine.hpp"
#include "core/text/strings.hpp"

namespace headrace::bind {
namespace {

// (delimiter, quote or empty, decimal mark), each one byte.
csv::Dialect dialect_of(const nb::tuple& marks) {
    const auto mark = [&](std::size_t i) { return nb::cast<std::string>(marks[i]); };
    if (nb::len(marks) != 3 || mark(0).size() != 1 || mark(1).size() > 1 || mark(2).size() != 1)
        throw nb::value_error("a dialect is a delimiter, a quote or nothing, and a decimal mark");
    csv::Dialect dialect{mark(0)[0], std::nullopt, mark(2)[0]};
    if (!mark(1).empty()) dialect.quote = mark(1)[0];
    return dialect;
}

csv::Layout layout_of(const nb::tuple& marks, std::size_t width, const nb::list& missing) {
    std::vector<std::string> words;
    for (nb::handle word : missing) words.push_back(nb::cast<std::string>(word));
    return {dialect_of(marks), width, csv::Words(std::move(words))};
}

nb::tuple scan(nb::object data, std::uint64_t start, std::uint64_t stop, nb::tuple marks, std::uint64_t width,
               bool utf8, bool last, std::size_t max_records) {
    const Buffer buffer(data);
    const csv::Dialect dialect = dialect_of(marks);
    csv::Scan found;
    {
        const nb::gil_scoped_release release;
        found = csv::scan(buffer.bytes(), start, stop, dialect, {width, utf8}, last, max_records);
    }
    return scanned(found);
}

HeldSpans gather(nb::object buffers, std::optional<Which> which, Indices offsets, nb::tuple marks, std::int64_t end) {
    HeldSpans held;
    held.parent = hold_buffers(std::move(buffers));
    const auto& from = nb::cast<const HeldBuffers&>(held.parent);
    const std::vector<Bytes>& files = from.bytes;
    const std::size_t count = offsets.shape(0);
    if (which && which->shape(0) != count) throw nb::value_error("which and offsets differ in length");
    const std::span<const std::int64_t> wanted(offsets.data(), count);
    const std::span<const std::int32_t> in = which ? std::span(which->data(), count) : std::span<const std::int32_t>{};
    const csv::Dialect dialect = dialect_of(marks);

    const nb::gil_scoped_release release;
    held.mapped = from.mapped(which ? which->data() : nullptr, count);
    if (end < 0) held.spans.payloads = csv::gather(files, in, wanted, dialect);
    else held.spans.payloads = csv::gather_adjacent(files.at(0), wanted, static_cast<std::uint64_t>(end));
    return held;
}

nb::list values_of(nb::object data, nb::tuple marks) {
    const Buffer buffer(data);
    const csv::Dialect dialect = dialect_of(marks);
    std::vector<char> room;
    nb::list out;
    for (const Bytes field : csv::fields_of(buffer.bytes(), dialect)) {
        const std::string_view value = csv::value_of(field, dialect, room);
        out.append(nb::bytes(value.data(), value.size()));
    }
    return out;
}

nb::list facts_of(const std::vector<csv::ColumnFacts>& columns) {
    nb::list out;
    for (const csv::ColumnFacts& facts : columns) {
        nb::dict one;
        one["empty"] = facts.empty;
        one["missing"] = facts.missing;
        one["whole"] = facts.whole;
        one["positive"] = facts.positive;
        one["huge"] = facts.huge;
        one["real"] = facts.real;
        one["boolean"] = facts.boolean;
        one["text"] = facts.text;
        one["padded"] = facts.padded;
        one["wide"] = facts.wide;
        one["negative"] = facts.negative;
        out.append(one);
    }
    return out;
}

nb::list examine(const HeldSpans& held, nb::tuple marks, std::size_t width, nb::list missing, bool until_text,
                 unsigned threads) {
    const csv::Layout layout = layout_of(marks, width, missing);
    std::vector<csv::ColumnFacts> columns;
    {
        const nb::gil_scoped_release release;
        columns = csv::examine(held.spans, layout, until_text, threads);
    }
    return facts_of(columns);
}

nb::list examine_rows(nb::object data, Indices starts, std::uint64_t end, nb::tuple marks, std::size_t width,
                      nb::list missing, bool until_text, unsigned threads) {
    const Buffer buffer(data);
    const csv::Layout layout = layout_of(marks, width, missing);
    const std::span<const std::int64_t> rows(starts.data(), starts.shape(0));
    std::vector<csv::ColumnFacts> columns;
    {
        const nb::gil_scoped_release release;
        columns = csv::examine(buffer.bytes(), rows, end, layout, until_text, threads);
    }
    return facts_of(columns);
}

nb::object examine_head(nb::object data, std::uint64_t begin, nb::tuple runs, nb::tuple marks, std::size_t width,
                        nb::list missing, bool until_text, unsigned threads) {
    const Buffer buffer(data);
    const csv::Layout layout = layout_of(marks, width, missing);
    const csv::RunSizes sizes{nb::cast<std::uint64_t>(runs[0]), nb::cast<std::uint64_t>(runs[1]),
                              nb::cast<std::uint64_t>(runs[2])};
    std::optional<csv::HeadFacts> found;
    {
        const nb::gil_scoped_release release;
        found = csv::examine_head(buffer.bytes(), begin, sizes, layout, until_text, threads);
    }
    if (!found) return nb::none();
    return nb::make_tuple(facts_of(found->columns), found->end);
}

// (field, kind, default). The default is None, the number's eight (or four, or one) bytes, or the text's bytes.
constexpr int exact_float64 = 7;

csv::Spec spec_of(nb::handle item) {
    const auto parts = nb::cast<nb::tuple>(item);
    const int kind = nb::cast<int>(parts[1]);
    if (kind < 1 || kind > exact_float64)
        throw nb::value_error("kind is 1 (int64), 2 (uint64), 3 (float64), 4 (float32), 5 (bool), 6 (text) or 7 "
                              "(float64 without rounding)");
    csv::Spec spec;
    spec.field = nb::cast<std::size_t>(parts[0]);
    spec.exact = kind == exact_float64;
    spec.kind = spec.exact ? csv::Kind::float64 : static_cast<csv::Kind>(kind);
    if (parts[2].is_none()) return spec;
    const auto given = nb::cast<nb::bytes>(parts[2]);
    spec.has_default = true;
    if (spec.kind == csv::Kind::text) spec.words.assign(given.c_str(), given.size());
    else if (given.size() <= sizeof spec.number) std::memcpy(&spec.number, given.c_str(), given.size());
    else throw nb::value_error("a default of another size");
    return spec;
}

/// The characters of an encoding, by asking Python for each.
std::shared_ptr<const csv::Charset> charset_of(const std::string& encoding) {
    csv::Charset characters;
    for (std::size_t i = 0; i < characters.size(); ++i) {
        const auto byte = static_cast<char>(i + characters.size());
        const nb::object text = nb::steal(PyUnicode_Decode(&byte, 1, encoding.c_str(), nullptr));
        if (text.is_valid()) {
            characters[i] = nb::cast<std::string>(text);
        } else {
            if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) throw nb::python_error();
            PyErr_Clear();
        }
    }
    return std::make_shared<const csv::Charset>(std::move(characters));
}

nb::dlpack::dtype dtype_of(csv::Kind kind) {
    return kind == csv::Kind::int64     ? nb::dtype<std::int64_t>()
           : kind == csv::Kind::uint64  ? nb::dtype<std::uint64_t>()
           : kind == csv::Kind::float64 ? nb::dtype<double>()
           : kind == csv::Kind::float32 ? nb::dtype<float>()
                                        : nb::dtype<bool>();
}

// With few rows, making an array costs more than its content, and a view a tenth of that. So columns of one kind share
// an array.
constexpr std::size_t few_rows = 64;

class Shared {
  public:
    Shared(csv::Decoded& decoded, const std::vector<csv::Spec>& specs, std::size_t rows) : rows_(rows) {
        for (std::size_t k = 0; k < specs.size(); ++k)
            if (specs[k].kind != csv::Kind::text)
                numbers_[static_cast<std::size_t>(specs[k].kind)].push_back(&decoded.columns[k]);
    }

    /// The next column of this kind.
    nb::object next(csv::Kind kind) {
        const auto number = static_cast<std::size_t>(kind);
        const std::vector<csv::Column*>& columns = numbers_[number];
        if (!arrays_[number].is_valid()) arrays_[number] = joined(kind, columns);
        PyObject* const view = PySequence_GetItem(arrays_[number].ptr(), given_[number]++);
        if (view == nullptr) throw nb::python_error();
        return nb::steal(view);
    }

  private:
    [[nodiscard]] nb::object joined(csv::Kind kind, const std::vector<csv::Column*>& columns) const {
        const nb::dlpack::dtype dtype = dtype_of(kind);
        const std::size_t bytes = rows_ * dtype.bits / 8;
        Pool::Block block = batch_pool()->take(columns.size() * bytes);
        for (std::size_t i = 0; i < columns.size(); ++i)
            std::memcpy(block.data() + i * bytes, columns[i]->numbers.data(), bytes);
        return to_numpy(std::move(block), dtype, {columns.size(), rows_});
    }

    static constexpr std::size_t kinds = 7;
    std::size_t rows_;
    std::array<std::vector<csv::Column*>, kinds> numbers_;
    std::array<nb::object, kinds> arrays_;
    std::array<Py_ssize_t, kinds> given_{};
};

/// The texts of all columns that have text in every row, as objects of the class `strings`.
std::vector<nb::object> texts_of(const csv::Decoder& decoder, csv::Decoded& decoded, nb::handle strings) {
    std::vector<TextColumn> columns;
    for (std::size_t k = 0; k < decoded.columns.size(); ++k) {
        const csv::Spec& spec = decoder.specs()[k];
        csv::Column& column = decoded.columns[k];
        if (spec.kind == csv::Kind::text && !column.no_text) columns.push_back({&column.texts, !spec.is_bytes});
    }
    return to_strings(columns, strings);
}

nb::list columns_of(const csv::Decoder& decoder, csv::Decoded& decoded, std::size_t rows, nb::handle strings) {
    nb::list out;
    const bool shares = rows != 0 && rows <= few_rows;
    Shared shared(decoded, decoder.specs(), rows);
    std::vector<nb::object> texts = texts_of(decoder, decoded, strings);
    auto text = texts.begin();
    for (std::size_t k = 0; k < decoded.columns.size(); ++k) {
        const csv::Kind kind = decoder.specs()[k].kind;
        csv::Column& column = decoded.columns[k];
        if (column.no_text) out.append(nb::int_(*column.no_text));
        else if (kind == csv::Kind::text) out.append(std::move(*text++));
        else out.append(shares ? shared.next(kind) : to_numpy(std::move(column.numbers), dtype_of(kind), {rows}));
    }
    return out;
}

nb::list decode(const csv::Decoder& decoder, const HeldSpans& held, nb::handle strings) {
    csv::Decoded decoded;
    {
        const nb::gil_scoped_release release;
        decoded = decoder.decode(held.spans, batch_pool());
    }
    return columns_of(decoder, decoded, held.spans.payloads.size(), strings);
}

nb::object decode_rows(const csv::Decoder& decoder, nb::list stretches, std::size_t rows, nb::handle strings) {
    std::vector<Buffer> buffers;
    std::vector<csv::Stretch> wanted;
    for (nb::handle item : stretches) {
        const auto parts = nb::cast<nb::tuple>(item);
        const Bytes bytes = buffers.emplace_back(parts[0]).bytes();
        wanted.push_back({bytes, nb::cast<std::uint64_t>(parts[1]), nb::cast<std::uint64_t>(parts[2])});
    }
    std::optional<csv::Decoded> decoded;
    {
        const nb::gil_scoped_release release;
        decoded = decoder.decode(wanted, rows, batch_pool());
    }
    if (!decoded) return nb::none();
    for (const csv::Column& column : decoded->columns)
        if (column.no_text) return nb::none();
    return columns_of(decoder, *decoded, rows, strings);
}

using Numbers = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// The inputs of one call of encode, kept alive while the GIL is released.
struct Inputs {
    std::vector<csv::Source> sources;
    std::vector<Numbers> numbers;
    std::vector<Buffer> buffers;
    std::vector<Indices> places;

    // (kind, values per row, a flat array, a list of bytes, or data and offsets of texts, texts to quote)
    void add(nb::handle item, std::size_t rows) {
        const auto parts = nb::cast<nb::tuple>(item);
        const int kind = nb::cast<int>(parts[0]);
        if (kind < 1 || kind > 6) throw nb::value_error("no such kind of values");
        csv::Source source{static_cast<csv::Values>(kind), nb::cast<std::size_t>(parts[1]), nullptr, {}};
        const std::size_t total = rows * source.count;
        if (parts.size() > 3)
            for (nb::handle text : nb::cast<nb::list>(parts[3])) source.quoted.push_back(text_of(text));
        if (!source.quoted.empty() && source.quoted.size() != source.count)
            throw nb::value_error("one text to quote for each value of a row");
        if (source.kind == csv::Values::text && nb::isinstance<nb::tuple>(parts[2])) {
            const auto strings = nb::cast<nb::tuple>(parts[2]);
            const Indices& offsets = places.emplace_back(nb::cast<Indices>(strings[1]));
            const StringsView view{buffers.emplace_back(strings[0]).bytes(), {offsets.data(), offsets.shape(0)}};
            if (view.count() != total) throw nb::value_error("a column of another length");
            source.texts.reserve(total);
            for (std::size_t i = 0; i < total; ++i) {
                const Bytes bytes = view.at(i);
                source.texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
            }
        } else if (source.kind == csv::Values::text) {
            for (nb::handle text : nb::cast<nb::list>(parts[2])) source.texts.push_back(text_of(text));
            if (source.texts.size() != total) throw nb::value_error("a column of another length");
        } else {
            const std::size_t size = source.kind == csv::Values::boolean   ? 1
                                     : source.kind == csv::Values::float32 ? 4
                                                                           : 8;
            const Numbers& values = numbers.emplace_back(nb::cast<Numbers>(parts[2]));
            if (values.shape(0) != total || values.itemsize() != size)
                throw nb::value_error("a column of another length or type");
            source.numbers = static_cast<const std::byte*>(values.data());
        }
        sources.push_back(std::move(source));
    }

  private:
    std::string_view text_of(nb::handle text) {
        const Bytes bytes = buffers.emplace_back(text).bytes();
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
};

nb::object encode(nb::list columns, std::size_t rows, nb::tuple marks, const std::string& line_end,
                  const std::string& missing) {
    Inputs inputs;
    for (nb::handle item : columns) inputs.add(item, rows);
    const csv::Dialect dialect = dialect_of(marks);
    std::vector<char> text;
    {
        const nb::gil_scoped_release release;
        text = csv::encode(inputs.sources, rows, dialect, line_end, missing);
    }
    return nb::bytes(text.data(), text.size());
}

} // namespace

void register_csv(nb::module_& module) {
    module.def("scan_csv", guarded(&scan), nb::arg("data"), nb::arg("start"), nb::arg("stop"), nb::arg("dialect"),
               nb::kw_only(), nb::arg("width"), nb::arg("utf8"), nb::arg("last"), nb::arg("max_records"),
               nb::sig("def scan_csv(data: collections.abc.Buffer, start: int, stop: int, dialect: tuple[str, str, "
                       "str], *, width: int, "
                       "utf8: bool, last: bool, max_records: int) -> tuple[numpy.typing.NDArray[numpy.int64], int]"),
               "Starts of the rows that begin in [start, stop), and where to continue. A dialect is (delimiter, quote "
               "or '', decimal mark). If width is not 0, every row must have that many fields. A FormatError has the "
               "starts found before it as `starts`.");
    module.def("find_csv", guarded([](nb::object data, std::uint64_t start) {
                   const Buffer buffer(data);
                   const nb::gil_scoped_release release;
                   return csv::find(buffer.bytes(), start);
               }),
               nb::arg("data"), nb::arg("start"),
               nb::sig("def find_csv(data: collections.abc.Buffer, start: int) -> int"),
               "Where the first line at or after start begins; -1 if there is none.");
    module.def(
        "gather_csv", guarded(&gather), nb::arg("buffers"), nb::arg("which").none(), nb::arg("offsets"),
        nb::arg("dialect"), nb::arg("end") = -1,
        nb::sig("def gather_csv(buffers: Buffers | list[typing.Any], which: numpy.typing.NDArray[numpy.int32] | "
                "None, offsets: "
                "numpy.typing.NDArray[numpy.int64], dialect: tuple[str, str, str], end: int = -1) -> Spans"),
        "Spans over the rows that begin at the offsets, without their line ends. With `end`, they are rows of the "
        "first buffer that follow each other, as scan_csv found them, up to there.");
    module.def("values_of_csv", guarded(&values_of), nb::arg("row"), nb::arg("dialect"),
               nb::sig("def values_of_csv(row: collections.abc.Buffer, dialect: tuple[str, str, str]) -> list[bytes]"),
               "The values of one row, without quotes.");
    module.def("examine_csv", guarded(&examine), nb::arg("spans"), nb::arg("dialect"), nb::arg("width"),
               nb::arg("missing"), nb::arg("until_text") = false, nb::arg("threads") = 1,
               nb::sig("def examine_csv(spans: Spans, dialect: tuple[str, str, str], width: int, missing: list[str], "
                       "until_text: bool = False, threads: int = 1) -> list[dict[str, int]]"),
               "The kinds of values in each column: how many are integers, texts, ... With until_text, a column is "
               "examined only until its first text.");
    module.def("examine_csv_rows", guarded(&examine_rows), nb::arg("data"), nb::arg("starts"), nb::arg("end"),
               nb::arg("dialect"), nb::arg("width"), nb::arg("missing"), nb::arg("until_text") = false,
               nb::arg("threads") = 1,
               nb::sig("def examine_csv_rows(data: collections.abc.Buffer, starts: numpy.typing.NDArray[numpy.int64], "
                       "end: int, dialect: tuple[str, str, str], width: int, missing: list[str], until_text: bool = "
                       "False, threads: int = 1) -> list[dict[str, int]]"),
               "The same for rows of one buffer that follow each other, as scan_csv found them, up to `end`.");
    module.def(
        "examine_csv_head", guarded(&examine_head), nb::arg("data"), nb::arg("begin"), nb::arg("runs"),
        nb::arg("dialect"), nb::arg("width"), nb::arg("missing"), nb::arg("until_text") = false, nb::arg("threads") = 1,
        nb::sig("def examine_csv_head(data: collections.abc.Buffer, begin: int, runs: tuple[int, int, int], "
                "dialect: tuple[str, str, str], width: int, missing: list[str], until_text: bool = False, "
                "threads: int = 1) -> tuple[list[dict[str, int]], int] | None"),
        "The same for the rows that a scan in runs from `begin` on finds, and where they end. Runs are (bytes of "
        "the first one, of the largest ones, of all together). None if only a scan can tell where rows begin.");
    nb::class_<csv::Decoder>(
        module, "CsvDecoder",
        "Decodes rows into columns. Specs are (field, kind, default), kinds 1 int64, 2 uint64, 3 float64, "
        "4 float32, 5 bool, 6 text; a text's encoding is '' where bytes are wanted.")
        .def(
            "__init__",
            [](csv::Decoder* self, nb::tuple marks, std::size_t width, nb::list missing, nb::list specs,
               nb::list encodings) {
                if (nb::len(encodings) != nb::len(specs)) throw nb::value_error("one encoding for each spec");
                std::vector<csv::Spec> wanted;
                for (nb::handle item : specs) {
                    csv::Spec& spec = wanted.emplace_back(spec_of(item));
                    const auto encoding = nb::cast<std::string>(encodings[wanted.size() - 1]);
                    spec.is_bytes = encoding.empty();
                    if (spec.kind == csv::Kind::text && !encoding.empty() && encoding != "utf-8")
                        spec.charset = charset_of(encoding);
                }
                new (self) csv::Decoder(layout_of(marks, width, missing), std::move(wanted));
            },
            nb::arg("dialect"), nb::arg("width"), nb::arg("missing"), nb::arg("specs"), nb::arg("encodings"),
            nb::sig("def __init__(self, dialect: tuple[str, str, str], width: int, missing: list[str], specs: "
                    "list[tuple[int, int, bytes | None]], "
                    "encodings: list[str]) -> None"))
        .def("decode", guarded(&decode), nb::arg("spans"), nb::arg("strings"),
             nb::sig("def decode(self, spans: Spans, strings: type) -> list[typing.Any]"),
             "A column for each spec: an array; of texts an object of the class `strings`, in UTF-8, or the number of "
             "the first one that is not text in the encoding.")
        .def("decode_rows", guarded(&decode_rows), nb::arg("stretches"), nb::arg("rows"), nb::arg("strings"),
             nb::sig("def decode_rows(self, stretches: list[tuple[collections.abc.Buffer, int, int]], rows: int, "
                     "strings: type) -> list[typing.Any] | None"),
             "The same for rows that follow each other. A stretch is (buffer, start of the first row, end of the last "
             "one or start of the one after it). None if there are not `rows` of them, or if any is not as it should "
             "be: decode reports why, or decodes them.");
    module.def(
        "encode_csv", guarded(&encode), nb::arg("columns"), nb::arg("rows"), nb::arg("dialect"), nb::arg("line_end"),
        nb::arg("missing") = "nan",
        nb::sig("def encode_csv(columns: list[tuple[int, int, typing.Any] | tuple[int, int, typing.Any, list[bytes]]], "
                "rows: int, dialect: tuple[str, str, str], line_end: str, missing: str = 'nan') -> bytes"),
        "Rows as text. Columns are (kind, values per row, values): a flat array, and of texts a list of bytes, or "
        "their data and offsets. A fourth item has a text for each value of a row, which is quoted in any case. "
        "`missing` is written for NaN.");
}

} // namespace headrace::bind
