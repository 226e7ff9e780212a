#include <nanobind/stl/pair.h>

#include "bind/support.hpp"
#include "core/parquet/column.hpp"
#include "core/parquet/join.hpp"

namespace headrace::bind {
namespace {

using parquet::ColumnChunk;
using parquet::ColumnForm;
using parquet::ColumnReader;

constexpr std::size_t numbers_of_chunk = sizeof(ColumnChunk) / sizeof(std::int64_t);

constexpr std::uint32_t most_level = 7;

using ChunkTable = nb::ndarray<const std::int64_t, nb::shape<-1, numbers_of_chunk>, nb::c_contig, nb::device::cpu>;

nb::object read_chunks(nb::object footer) {
    const Buffer held(footer);
    parquet::Chunks chunks;
    {
        const nb::gil_scoped_release release;
        chunks = parquet::read_chunks(held.bytes());
    }
    const std::size_t size = chunks.all.size() * sizeof(ColumnChunk);
    Pool::Block block = batch_pool()->take(std::max<std::size_t>(size, 1));
    if (size != 0) std::memcpy(block.data(), chunks.all.data(), size);
    const std::size_t groups = chunks.columns == 0 ? 0 : chunks.all.size() / chunks.columns;
    return to_numpy(std::move(block), nb::dtype<std::int64_t>(), {groups, chunks.columns, numbers_of_chunk});
}

nb::bytes join_footers(nb::list parts) {
    std::vector<Buffer> held;
    std::vector<parquet::JoinedPart> joined;
    held.reserve(nb::len(parts));
    for (nb::handle part : parts) {
        const auto [footer, move] = nb::cast<std::pair<nb::object, std::int64_t>>(part);
        if (move < 0) throw nb::value_error("no part moves to the front");
        joined.push_back({held.emplace_back(footer).bytes(), move});
    }
    std::vector<std::byte> made;
    {
        const nb::gil_scoped_release release;
        made = parquet::join_footers(joined);
    }
    return nb::bytes(made.data(), made.size());
}

/// A reader and the file that it reads.
struct HeldColumn {
    HeldColumn(nb::object data, const ChunkTable& chunks, const ColumnForm& form, nb::object dtype_)
        : file(std::move(data)),
          dtype(std::move(dtype_)) {
        std::vector<ColumnChunk> all(chunks.shape(0));
        static_assert(std::is_trivially_copyable_v<ColumnChunk>);
        void* const to = all.data(); // GCC warns of a struct whose members have defaults
        if (!all.empty()) std::memcpy(to, chunks.data(), all.size() * sizeof(ColumnChunk));
        reader = std::make_unique<ColumnReader>(batch_pool(), file.bytes(), std::move(all), form);
        is_text = form.values.is_text();
        has_lists = form.levels.has_lists();
    }

    Buffer file;
    nb::object dtype;
    std::unique_ptr<ColumnReader> reader;
    bool is_text = false, has_lists = false;
};

HeldColumn* make(nb::object file, const ChunkTable& chunks, std::size_t stored, nb::object dtype, std::uint32_t most,
                 std::int32_t empty, bool verify, std::optional<nb::bytes> fill) {
    const std::size_t wanted = dtype.is_none() ? 0 : nb::cast<std::size_t>(dtype.attr("itemsize"));
    const bool fits = stored == wanted || (stored == 4 && (wanted == 1 || wanted == 2 || wanted == 8));
    const bool is_known = stored == 0 || stored == 1 || stored == 4 || stored == 8;
    if (!is_known || !fits || most > most_level || (fill && wanted != 0 && fill->size() != wanted))
        throw nb::value_error("not a form of columns that is read here");
    ColumnForm form{{stored, wanted}, {most, empty}, verify};
    if (fill) {
        const auto* const bytes = static_cast<const std::byte*>(fill->data());
        form.fill.emplace(bytes, bytes + fill->size());
    }
    return new HeldColumn(std::move(file), chunks, form, std::move(dtype));
}

nb::object int64_array(Pool::Block block, std::size_t count) {
    return to_numpy(std::move(block), nb::dtype<std::int64_t>(), {count});
}

nb::tuple read(HeldColumn& column, std::size_t rows) {
    if (GuardedRead* const guard = GuardedRead::current()) guard->touch(column.file.mapped());
    ColumnReader::Rows found;
    {
        const nb::gil_scoped_release release;
        found = column.reader->read(rows);
    }
    nb::object offsets = nb::none();
    if (column.has_lists) offsets = int64_array(std::move(found.offsets), rows + 1);
    if (column.is_text) {
        StringBlocks& texts = found.texts;
        nb::object data = to_numpy(std::move(texts.data), nb::dtype<std::uint8_t>(), {texts.size});
        nb::object ends = int64_array(std::move(texts.offsets), texts.count + 1);
        nb::object codes = nb::none();
        if (found.codes.data() != nullptr)
            codes = to_numpy(std::move(found.codes), nb::dtype<std::int32_t>(), {found.values});
        return nb::make_tuple(nb::make_tuple(data, ends, codes), offsets);
    }
    const auto wanted = nb::cast<std::size_t>(column.dtype.attr("itemsize"));
    return nb::make_tuple(to_numpy(std::move(found.numbers), found.values, wanted, nb::make_tuple(), column.dtype),
                          offsets);
}

} // namespace

void register_parquet(nb::module_& module) {
    module.def("parquet_chunks", guarded(&read_chunks), nb::arg("footer"),
               nb::sig("def parquet_chunks(footer: typing.Any) -> numpy.typing.NDArray[numpy.int64]"),
               "Where the pages of each column in each row group are: int64 (row groups, columns, 8), of begin, size, "
               "levels, rows, codec, physical type, and how many repetition and definition levels statistics count.");
    module.def("join_parquet_footers", guarded(&join_footers), nb::arg("parts"),
               nb::sig("def join_parquet_footers(parts: list[tuple[typing.Any, int]]) -> bytes"),
               "The metadata of a file that holds the row groups of several: of each its metadata, and how many bytes "
               "later its pages are there.");
    nb::class_<HeldColumn>(module, "ParquetColumn",
                           "One column of adjacent row groups, read in order. FormatError where pyarrow must read it.")
        .def(nb::new_(guarded(&make)), nb::arg("file"), nb::arg("chunks"), nb::arg("stored"), nb::arg("dtype").none(),
             nb::arg("most"), nb::arg("empty"), nb::arg("verify"), nb::arg("fill").none())
        .def("read", guarded(&read), nb::arg("rows"),
             nb::sig("def read(self, rows: int) -> tuple[typing.Any, numpy.typing.NDArray[numpy.int64] | None]"),
             "The next rows: numbers, or the bytes of texts, where each begins, and the number of the text of each "
             "value "
             "if texts that recur are there once; and where each list begins.");
}

} // namespace headrace::bind
