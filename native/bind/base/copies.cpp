#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bind/base/columns.hpp"
#include "bind/support.hpp"
#include "core/base/spans.hpp"

namespace headrace::bind {
namespace {

/// A contiguous array whose rows are copied.
struct Column {
    explicit Column(nb::handle array) : buffer(array), dtype(array.attr("dtype")) {
        if (nb::cast<bool>(dtype.attr("hasobject"))) throw nb::type_error("objects are not copied");
        nb::list lengths;
        const auto shape = nb::cast<nb::tuple>(array.attr("shape"));
        if (nb::len(shape) == 0) throw nb::value_error("an array without axes has no rows");
        rows.count = nb::cast<std::size_t>(shape[0]);
        rows.size = nb::cast<std::size_t>(dtype.attr("itemsize"));
        for (std::size_t axis = 1; axis < nb::len(shape); ++axis) {
            const auto length = nb::cast<std::size_t>(shape[axis]);
            if (length != 0 && rows.size > SIZE_MAX / length) throw nb::value_error("rows are too large");
            rows.size *= length;
            lengths.append(shape[axis]);
        }
        inner = nb::tuple(lengths);
        rows.bytes = buffer.bytes();
        if (rows.size != 0 && rows.bytes.size() / rows.size < rows.count) throw nb::value_error("an array changed");
    }

    Buffer buffer;
    Rows rows;
    nb::object dtype;
    nb::tuple inner; ///< The shape of a row.
};

/// A column of text whose rows are copied, or viewed where they are adjacent.
struct TextRows {
    explicit TextRows(nb::handle column)
        : data(column.attr("_data")),
          offsets(column.attr("_offsets")),
          is_text(column.attr("is_text")),
          buffer(data),
          places(nb::cast<Indices>(offsets, false)) {
        if (nb::len(nb::object(column.attr("shape"))) != 1 || places.shape(0) == 0)
            throw nb::value_error("a column of text with one axis has one more offset than values");
    }

    [[nodiscard]] std::size_t count() const { return places.shape(0) - 1; }
    [[nodiscard]] StringsView view() const { return {buffer.bytes(), {places.data(), places.shape(0)}}; }
    [[nodiscard]] StringsView view(std::size_t first, std::size_t stop) const {
        return {buffer.bytes(), {places.data() + first, stop - first + 1}};
    }

    /// A view of adjacent rows.
    [[nodiscard]] nb::object part(const StringsMaker& maker, std::size_t first, std::size_t stop) const {
        const auto begin = static_cast<Py_ssize_t>(first), end = static_cast<Py_ssize_t>(stop);
        const nb::object some = nb::steal(PySequence_GetSlice(offsets.ptr(), begin, end + 1));
        if (!some) throw nb::python_error();
        return maker.make({data, some, is_text, nb::make_tuple(stop - first)});
    }

    nb::object data, offsets, is_text;
    Buffer buffer;
    Indices places;
};

/// Columns whose rows are copied together. NumPy releases the GIL for each array of 500 numbers or more, and two
/// threads that copy many of them wait for each other most of the time. Here it is released once, and not at all for a
/// few bytes.
class Columns {
  public:
    Columns(nb::sequence columns, nb::handle strings) {
        for (nb::handle column : columns) {
            is_text_.push_back(column.type().is(strings));
            if (is_text_.back()) texts_.emplace_back(column);
            else numbers_.emplace_back(column);
        }
        if (!texts_.empty()) maker_.emplace(strings);
    }
    Columns(Columns&&) = default;
    Columns(const Columns&) = delete;
    Columns& operator=(const Columns&) = delete;
    ~Columns() = default;

    /// Some rows of some columns.
    struct Part {
        nb::object owner; ///< Keeps the columns.
        const Columns* columns = nullptr;
        std::size_t first = 0;
        std::size_t stop = 0;
    };

    [[nodiscard]] nb::list copy(std::size_t first, std::size_t stop) const {
        check_rows(first, stop);
        Blocks blocks = taken(stop - first);
        {
            const MaybeReleased released(blocks.bytes);
            for (std::size_t i = 0; i < numbers_.size(); ++i) copy_numbers(i, first, stop, blocks.numbers[i].data());
        }
        std::vector<nb::object> texts;
        texts.reserve(texts_.size());
        for (const TextRows& column : texts_) texts.push_back(column.part(*maker_, first, stop));
        return made(std::move(blocks.numbers), std::move(texts), stop - first);
    }

    [[nodiscard]] nb::list pick(const Indices& indices) const {
        const std::span<const std::int64_t> wanted(indices.data(), indices.shape(0));
        Blocks blocks = taken(wanted.size());
        std::vector<StringBlocks> found(texts_.size());
        {
            const MaybeReleased released(blocks.bytes + texts_.size() * wanted.size() * text_bytes);
            for (std::size_t i = 0; i < numbers_.size(); ++i)
                take_rows(numbers_[i].rows, wanted, blocks.numbers[i].data());
            if (!texts_.empty()) check_signs(wanted);
            for (std::size_t i = 0; i < texts_.size(); ++i)
                found[i] = take_strings(texts_[i].view(), wanted, batch_pool());
        }
        return made(std::move(blocks.numbers), texts_of(found), wanted.size());
    }

    /// The rows of all parts, one part after the other; nothing if their columns are not of the same kinds. There is at
    /// least one part.
    [[nodiscard]] static std::optional<nb::list> join(std::span<const Part> parts) {
        const Columns& front = *parts.front().columns;
        std::size_t rows = 0, bytes = 0;
        for (const Part& part : parts) {
            part.columns->check_rows(part.first, part.stop);
            if (!front.is_like(*part.columns)) return std::nullopt;
            if (__builtin_add_overflow(rows, part.stop - part.first, &rows)) throw nb::value_error("too many rows");
        }
        Blocks blocks = front.taken(rows);
        std::vector<StringBlocks> found(front.texts_.size());
        for (const Part& part : parts)
            for (const TextRows& column : part.columns->texts_)
                bytes += column.view(part.first, part.stop).all().size();
        {
            const MaybeReleased released(blocks.bytes + bytes);
            for (std::size_t i = 0; i < front.numbers_.size(); ++i) {
                std::byte* to = blocks.numbers[i].data();
                for (const Part& part : parts) to = part.columns->copy_numbers(i, part.first, part.stop, to);
            }
            std::vector<StringsView> views(parts.size());
            for (std::size_t i = 0; i < found.size(); ++i) {
                std::ranges::transform(parts, views.begin(), [i](const Part& part) {
                    return part.columns->texts_[i].view(part.first, part.stop);
                });
                found[i] = join_strings(views, batch_pool());
            }
        }
        return front.made(std::move(blocks.numbers), front.texts_of(found), rows);
    }

  private:
    void check_rows(std::size_t first, std::size_t stop) const {
        if (first > stop) throw nb::value_error("the first row is behind the last one");
        for (const Column& column : numbers_)
            if (stop > column.rows.count) throw nb::index_error("there are fewer rows");
        for (const TextRows& column : texts_)
            if (stop > column.count()) throw nb::index_error("there are fewer rows");
    }

    /// Copies rows of an array of numbers and returns the end of the copy.
    std::byte* copy_numbers(std::size_t i, std::size_t first, std::size_t stop, std::byte* to) const {
        const Rows& rows = numbers_[i].rows;
        const std::size_t bytes = (stop - first) * rows.size;
        if (bytes != 0) std::memcpy(to, rows.bytes.data() + first * rows.size, bytes);
        return to + bytes;
    }

    /// Whether columns have the same kinds, types and shapes of rows in the same order.
    [[nodiscard]] bool is_like(const Columns& other) const {
        const auto is_alike = [](const Column& one, const Column& two) {
            return one.rows.size == two.rows.size && one.dtype.equal(two.dtype) && one.inner.equal(two.inner);
        };
        const auto is_same_kind = [](const TextRows& one, const TextRows& two) { return one.is_text.is(two.is_text); };
        return is_text_ == other.is_text_ && std::ranges::equal(numbers_, other.numbers_, is_alike) &&
               std::ranges::equal(texts_, other.texts_, is_same_kind);
    }

    [[nodiscard]] std::vector<nb::object> texts_of(std::vector<StringBlocks>& found) const {
        std::vector<nb::object> texts;
        texts.reserve(found.size());
        for (std::size_t i = 0; i < found.size(); ++i)
            texts.push_back(to_strings(*maker_, {&found[i], texts_[i].is_text.is(nb::handle(Py_True))}));
        return texts;
    }

    /// Memory for numbers.
    struct Blocks {
        std::vector<Pool::Block> numbers;
        std::size_t bytes = 0;
    };

    /// Releases the GIL for work on many bytes.
    class MaybeReleased {
      public:
        explicit MaybeReleased(std::size_t bytes) {
            constexpr std::size_t few_bytes = 32 << 10;
            if (bytes > few_bytes) release_.emplace();
        }

      private:
        std::optional<nb::gil_scoped_release> release_;
    };

    [[nodiscard]] Blocks taken(std::size_t count) const {
        Blocks blocks;
        blocks.numbers.reserve(numbers_.size());
        for (const Column& column : numbers_) {
            if (column.rows.size != 0 && count > most_bytes / column.rows.size) throw nb::value_error("too many rows");
            blocks.numbers.push_back(batch_pool()->take(count * column.rows.size));
            blocks.bytes += count * column.rows.size;
        }
        return blocks;
    }

    /// Columns of text would count negative indices from their end.
    static void check_signs(std::span<const std::int64_t> indices) {
        const auto negative = std::ranges::find_if(indices, [](std::int64_t index) { return index < 0; });
        if (negative == indices.end()) return;
        FormatError error(Fault::range, 0, 0, static_cast<std::uint64_t>(*negative));
        error.record = negative - indices.begin();
        throw error;
    }

    /// All columns in their order.
    [[nodiscard]] nb::list made(std::vector<Pool::Block> numbers, std::vector<nb::object> texts,
                                std::size_t count) const {
        nb::list columns;
        std::size_t number = 0, text = 0;
        for (const bool is_text : is_text_) {
            if (is_text) {
                columns.append(std::move(texts[text++]));
                continue;
            }
            const Column& column = numbers_[number];
            columns.append(to_numpy(std::move(numbers[number++]), count, column.rows.size, column.inner, column.dtype));
        }
        return columns;
    }

    static constexpr std::size_t most_bytes = SIZE_MAX >> 16; // So that their sum fits, too.
    static constexpr std::size_t text_bytes = 32;             // of a value and its offset, a guess
    std::vector<bool> is_text_;
    std::vector<Column> numbers_;
    std::vector<TextRows> texts_;
    std::optional<StringsMaker> maker_;
};

/// (Columns, first row, stop) each.
std::optional<nb::list> join_rows(const nb::sequence& given) {
    std::vector<Columns::Part> parts;
    for (nb::handle each : given) {
        nb::tuple place;
        Columns::Part part{};
        const bool is_part = nb::try_cast(each, place) && nb::len(place) == 3 && nb::try_cast(place[0], part.columns) &&
                             part.columns != nullptr && nb::try_cast(place[1], part.first) &&
                             nb::try_cast(place[2], part.stop);
        if (!is_part) throw nb::type_error("a part is columns, the first row, and the one after the last");
        part.owner = place[0];
        parts.push_back(std::move(part));
    }
    if (parts.empty()) throw nb::value_error("there is no part");
    return Columns::join(parts);
}

/// Rows that vary in length, whose elements are in an array.
struct VaryingColumn {
    VaryingColumn(nb::handle values, Indices offsets_)
        : elements(values),
          offsets(std::move(offsets_)),
          rows{elements.rows, {offsets.data(), offsets.shape(0)}} {
        if (rows.offsets.empty()) throw nb::value_error("there is one more offset than rows");
    }

    [[nodiscard]] std::size_t count() const { return rows.offsets.size() - 1; }

    Column elements;
    Indices offsets;
    VaryingRows rows;
};

nb::object pad(nb::handle values, const Indices& offsets, std::size_t length, nb::handle filling) {
    const VaryingColumn column(values, offsets);
    const Column fill(filling);
    const std::size_t size = column.elements.rows.size, count = column.count();
    if (fill.rows.bytes.size() != size) throw nb::value_error("the filling is one element");
    constexpr std::size_t most_bytes = SIZE_MAX >> 16;
    if (length != 0 && size > most_bytes / length) throw nb::value_error("rows are too large");
    if (length * size != 0 && count > most_bytes / (length * size)) throw nb::value_error("too many rows");
    Pool::Block block = batch_pool()->take(count * length * size);
    {
        const ReleaseForMany released(count * length);
        pad_rows(column.rows, length, fill.rows.bytes, block.data());
    }
    nb::list inner;
    inner.append(length);
    for (nb::handle axis : column.elements.inner) inner.append(axis);
    return to_numpy(std::move(block), count, length * size, nb::tuple(inner), column.elements.dtype);
}

/// Parts whose elements are of one dtype and shape. Nothing else is taken together.
std::vector<VaryingColumn> hold_parts(const nb::list& given) {
    std::vector<VaryingColumn> parts;
    for (nb::handle each : given) {
        nb::tuple part;
        Indices offsets;
        if (!nb::try_cast(each, part) || nb::len(part) != 2 || !nb::try_cast(nb::object(part[1]), offsets, false))
            throw nb::type_error("a part is values and offsets");
        parts.emplace_back(nb::object(part[0]), std::move(offsets));
        const Column &first = parts.front().elements, &latest = parts.back().elements;
        if (!latest.dtype.equal(first.dtype) || !latest.inner.equal(first.inner))
            throw nb::type_error("parts of one dtype and shape");
    }
    if (parts.empty()) throw nb::value_error("there is no part");
    return parts;
}

nb::tuple take_varying(const nb::list& given, const Indices& indices) {
    const std::vector<VaryingColumn> parts = hold_parts(given);
    const std::span<const std::int64_t> wanted(indices.data(), indices.shape(0));
    std::vector<VaryingRows> rows;
    std::vector<std::int64_t> firsts{0};
    for (const VaryingColumn& part : parts) {
        rows.push_back(part.rows);
        firsts.push_back(firsts.back() + static_cast<std::int64_t>(part.count()));
    }
    std::vector<std::int32_t> which(wanted.size());
    find_parts(firsts, wanted, which.data());
    std::vector<std::int64_t> places(wanted.size());
    Pool::Block offsets = batch_pool()->take((wanted.size() + 1) * sizeof(std::int64_t));
    auto* const starts = reinterpret_cast<std::int64_t*>(offsets.data());
    starts[0] = 0;
    const std::size_t size = parts.front().elements.rows.size;
    std::vector<std::size_t> ends(wanted.size());
    std::size_t total = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const auto part = static_cast<std::uint32_t>(which[i]);
        // The first part tells that a row is none, too.
        const VaryingRows& held = rows[part < rows.size() ? part : 0];
        places[i] = part < rows.size() ? wanted[i] - firsts[part] : -1;
        total += held.row(places[i], i).count;
        if (size != 0 && total > (SIZE_MAX >> 16) / size) throw nb::value_error("too many rows");
        ends[i] = total * size;
        starts[i + 1] = static_cast<std::int64_t>(total);
    }
    Pool::Block block = batch_pool()->take(total * size);
    {
        const ReleaseForMany released(total);
        take_varying_rows(rows, which.data(), places, ends, block.data());
    }
    const Column& elements = parts.front().elements;
    return nb::make_tuple(to_numpy(std::move(block), total, size, elements.inner, elements.dtype),
                          to_numpy(std::move(offsets), nb::dtype<std::int64_t>(), {wanted.size() + 1}));
}

} // namespace

void register_copies(nb::module_& module) {
    nb::class_<Columns>(module, "Columns",
                        "Contiguous arrays of numbers, and columns of text of the class `strings` with one axis, whose "
                        "rows are copied together. They must not change.")
        .def(nb::init<nb::sequence, nb::handle>(), nb::arg("columns"), nb::arg("strings"),
             nb::sig("def __init__(self, columns: collections.abc.Sequence[typing.Any], strings: type) -> None"))
        .def("copy", guarded([](const Columns& columns, std::size_t first, std::size_t stop) {
                 return columns.copy(first, stop);
             }),
             nb::arg("first"), nb::arg("stop"), nb::sig("def copy(self, first: int, stop: int) -> list[typing.Any]"),
             "The rows from first to stop of each column: copies of numbers, views of text. IndexError: one has fewer.")
        .def("pick", guarded([](const Columns& columns, const Indices& indices) { return columns.pick(indices); }),
             nb::arg("indices"),
             nb::sig("def pick(self, indices: numpy.typing.NDArray[numpy.int64]) -> list[typing.Any]"),
             "Copies of the rows at these indices of each column. FormatError: one is out of range.");
    module.def("join_rows", guarded([](const nb::sequence& parts) { return join_rows(parts); }), nb::arg("parts"),
               nb::sig("def join_rows(parts: collections.abc.Sequence[tuple[Columns, int, int]]) -> "
                       "list[typing.Any] | None"),
               "The rows from first to stop of each part, (columns, first, stop), end to end, as copies. None if the "
               "parts have columns of other kinds, dtypes or shapes. IndexError: one has fewer rows.");
    module.def(
        "pad_rows", guarded(&pad), nb::arg("values"), nb::arg("offsets"), nb::arg("length"), nb::arg("filling"),
        nb::sig("def pad_rows(values: numpy.typing.NDArray[typing.Any], offsets: "
                "numpy.typing.NDArray[numpy.int64], length: int, filling: numpy.typing.NDArray[typing.Any]) -> "
                "numpy.typing.NDArray[typing.Any]"),
        "Rows that vary in length as an array (rows, length, *inner): row i has the values from offsets[i] up to "
        "offsets[i + 1], as far as they fit, then the one of `filling`. FormatError: offsets are out of range.");
    module.def("take_varying_rows", guarded(&take_varying), nb::arg("parts"), nb::arg("indices"),
               nb::sig("def take_varying_rows(parts: list[tuple[numpy.typing.NDArray[typing.Any], "
                       "numpy.typing.NDArray[numpy.int64]]], indices: numpy.typing.NDArray[numpy.int64]) -> "
                       "tuple[numpy.typing.NDArray[typing.Any], numpy.typing.NDArray[numpy.int64]]"),
               "The rows at these indices, which count through the parts, (values, offsets) each: their values end to "
               "end, and their offsets. FormatError: one is out of range.");
}

} // namespace headrace::bind
