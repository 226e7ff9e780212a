#include <span>

#include <nanobind/stl/vector.h>

#include "bind/support.hpp"
#include "core/checksum/highway_hash.hpp"
#include "core/riegeli/read.hpp"

namespace headrace::bind {

using riegeli::ChunkHeader;
using riegeli::Chunks;

struct HeldChunks {
    HeldChunks(nb::object data, const Chunks::Wanted& wanted) : file(data), file_object(std::move(data)) {
        const nb::gil_scoped_release release;
        chunks = std::make_unique<Chunks>(batch_pool(), file.bytes(), wanted);
    }

    Buffer file;
    nb::object file_object;
    std::unique_ptr<Chunks> chunks;
};

const MappedFile* mapped_of(const HeldChunks& chunks) { return chunks.file.mapped(); }

std::span<const Bytes> records_of(nb::handle chunks) {
    const auto& held = nb::cast<const HeldChunks&>(chunks);
    if (GuardedRead* const guard = GuardedRead::current()) guard->touch(mapped_of(held));
    return held.chunks->records();
}

namespace {

// Bytes exposed through the buffer protocol, while their owner lives.
struct View {
    nb::object owner;
    std::span<std::byte> memory;
    bool writable;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    const auto& held = nb::cast<const View&>(nb::handle(self));
    static std::byte nothing{}; // An empty view needs an address too.
    void* const data = held.memory.empty() ? &nothing : held.memory.data();
    return PyBuffer_FillInfo(view, self, data, static_cast<Py_ssize_t>(held.memory.size()), held.writable ? 0 : 1,
                             flags);
}

PyType_Slot view_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

nb::object memoryview_of(nb::handle owner, std::span<std::byte> memory, bool writable) {
    const nb::object view = nb::cast(View{nb::borrow(owner), memory, writable});
    return nb::steal(PyMemoryView_FromObject(view.ptr()));
}

// Slices whole views, so that every slice in Python keeps the owner alive.
class Cutter {
  public:
    explicit Cutter(nb::handle owner) : held_(nb::cast<const HeldChunks&>(owner)), owner_(owner) {
        for (const std::span<std::byte> memory : held_.chunks->memory())
            wholes_.push_back({memory, memoryview_of(owner, memory, true)});
    }

    [[nodiscard]] nb::object cut(Bytes part) {
        for (const Whole& whole : wholes_)
            if (lies_in(part, whole.memory)) return slice(whole.view, part, whole.memory);
        if (!file_) file_ = nb::steal(PyMemoryView_FromObject(held_.file_object.ptr()));
        return slice(file_, part, held_.file.bytes());
    }

  private:
    struct Whole {
        Bytes memory;
        nb::object view;
    };

    static bool lies_in(Bytes part, Bytes whole) {
        return std::greater_equal<>{}(part.data(), whole.data()) &&
               std::less_equal<>{}(part.data() + part.size(), whole.data() + whole.size());
    }

    static nb::object slice(const nb::object& view, Bytes part, Bytes whole) {
        const auto begin = part.data() - whole.data();
        return view[nb::slice(begin, begin + static_cast<std::ptrdiff_t>(part.size()))];
    }

    const HeldChunks& held_;
    nb::handle owner_;
    std::vector<Whole> wholes_;
    nb::object file_;
};

nb::list jobs_of(nb::handle self) {
    nb::list jobs;
    Cutter cutter(self);
    for (const Chunks::Job& job : nb::cast<const HeldChunks&>(self).chunks->jobs())
        jobs.append(
            nb::make_tuple(static_cast<int>(job.codec), cutter.cut(job.source), cutter.cut(job.target), job.chunk));
    return jobs;
}

HeldSpans spans_of(nb::handle self) {
    const auto& from = nb::cast<const HeldChunks&>(self);
    HeldSpans held;
    held.spans.payloads = from.chunks->records();
    held.parent = nb::borrow(self);
    if (const MappedFile* const file = mapped_of(from)) held.mapped.push_back(file);
    return held;
}

// Gathers spans without keeping alive several times their size: records in much larger memory are copied.
HeldSpans gather(nb::list sources, nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> which,
                 Indices records) {
    struct Source {
        const Chunks* chunks;
        const MappedFile* file;
        std::size_t wanted = 0;
        bool copied = false;
    };
    const std::size_t count = which.shape(0);
    if (records.shape(0) != count) throw nb::value_error("which and records differ in length");
    std::vector<Source> from;
    for (nb::handle object : sources)
        from.push_back(
            {nb::cast<const HeldChunks&>(object).chunks.get(), mapped_of(nb::cast<const HeldChunks&>(object))});

    HeldSpans held;
    held.spans.payloads.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        if (which.data()[i] < 0 || static_cast<std::size_t>(which.data()[i]) >= from.size())
            throw nb::index_error("no such chunks");
        Source& source = from[static_cast<std::size_t>(which.data()[i])];
        const auto& payloads = source.chunks->records();
        const std::int64_t record = records.data()[i];
        if (record < 0 || static_cast<std::size_t>(record) >= payloads.size())
            throw nb::index_error("no such record in its chunk");
        held.spans.payloads[i] = payloads[static_cast<std::size_t>(record)];
        source.wanted += held.spans.payloads[i].size();
    }
    nb::list parents;
    std::size_t copied = 0;
    for (std::size_t i = 0; i < from.size(); ++i) {
        from[i].copied = from[i].wanted < from[i].chunks->held_bytes() / 2;
        if (GuardedRead* const guard = GuardedRead::current()) guard->touch(from[i].file);
        if (from[i].copied) {
            copied += from[i].wanted;
            continue;
        }
        parents.append(sources[i]);
        if (from[i].file != nullptr) add_files(held.mapped, {from[i].file});
    }
    held.parent = parents;
    if (copied != 0) held.blocks.push_back(batch_pool()->take(copied));
    std::byte* to = copied != 0 ? held.blocks.back().data() : nullptr;
    const nb::gil_scoped_release release;
    for (std::size_t i = 0; i < count && copied != 0; ++i) {
        Bytes& payload = held.spans.payloads[i];
        if (!from[static_cast<std::size_t>(which.data()[i])].copied || payload.empty()) continue;
        std::memcpy(to, payload.data(), payload.size());
        payload = {to, payload.size()};
        to += payload.size();
    }
    return held;
}

// Carries over the bytes objects of the picked records.
void keep_whole(HeldSpans& held, nb::list parts, const std::int32_t* which, const std::int64_t* positions) {
    std::vector<const HeldSpans*> from;
    for (nb::handle object : parts) {
        from.push_back(&nb::cast<const HeldSpans&>(object));
        if (from.back()->wanted) held.wanted = from.back()->wanted;
        if (!from.back()->whole.empty()) held.whole.resize(held.spans.payloads.size());
    }
    for (std::size_t i = 0; i < held.whole.size(); ++i) {
        const auto& whole = from[static_cast<std::size_t>(which[i])]->whole;
        const auto position = static_cast<std::size_t>(positions[i]);
        if (position < whole.size()) held.whole[i] = whole[position];
    }
}

// Picks spans from several parts, in a new order.
HeldSpans pick(nb::list parts, nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> which,
               Indices positions) {
    const std::size_t count = which.shape(0);
    if (positions.shape(0) != count) throw nb::value_error("which and positions differ in length");
    std::vector<const Spans*> from;
    HeldSpans held;
    for (nb::handle object : parts) {
        from.push_back(&nb::cast<const HeldSpans&>(object).spans);
        if (from.back()->seal != Seal::none)
            throw nb::value_error("these spans have payloads that are still to be checked");
        add_files(held.mapped, nb::cast<const HeldSpans&>(object).mapped);
    }
    held.parent = nb::list(parts);
    for (std::size_t i = 0; i < count; ++i) {
        if (which.data()[i] < 0 || static_cast<std::size_t>(which.data()[i]) >= from.size())
            throw nb::index_error("no such spans");
        const auto& payloads = from[static_cast<std::size_t>(which.data()[i])]->payloads;
        const std::int64_t position = positions.data()[i];
        if (position < 0 || static_cast<std::size_t>(position) >= payloads.size())
            throw nb::index_error("no such record in its spans");
        held.spans.payloads.push_back(payloads[static_cast<std::size_t>(position)]);
    }
    keep_whole(held, parts, which.data(), positions.data());
    return held;
}

HeldSpans join(nb::list parts) {
    HeldSpans held;
    std::size_t count = 0;
    for (nb::handle object : parts) count += nb::cast<const HeldSpans&>(object).spans.payloads.size();
    held.spans.payloads.reserve(count);
    for (nb::handle object : parts) {
        const auto& from = nb::cast<const HeldSpans&>(object);
        const Spans& part = from.spans;
        if (part.seal != Seal::none) throw nb::value_error("these spans have payloads that are still to be checked");
        if (from.wanted) held.wanted = from.wanted;
        if (!from.whole.empty()) {
            held.whole.resize(held.spans.payloads.size()); // earlier parts without bytes objects
            held.whole.insert(held.whole.end(), from.whole.begin(), from.whole.end());
        }
        held.spans.payloads.insert(held.spans.payloads.end(), part.payloads.begin(), part.payloads.end());
        add_files(held.mapped, from.mapped);
    }
    held.parent = nb::list(parts);
    return held;
}

nb::object table_of(const std::vector<ChunkHeader>& chunks) {
    constexpr std::size_t columns = 5;
    Pool::Block block = batch_pool()->take(chunks.size() * columns * sizeof(std::int64_t));
    std::byte* to = block.data();
    for (const ChunkHeader& chunk : chunks)
        for (const std::uint64_t number :
             {chunk.begin, chunk.end, static_cast<std::uint64_t>(chunk.type), chunk.num_records, chunk.decoded_size}) {
            store_le(to, number);
            to += sizeof(number);
        }
    return to_numpy(std::move(block), nb::dtype<std::int64_t>(), {chunks.size(), columns});
}

nb::tuple scan(nb::object data, std::uint64_t start, std::size_t most, bool verify) {
    const Buffer buffer(data);
    riegeli::ChunkScan found;
    {
        const nb::gil_scoped_release release;
        found = riegeli::scan_chunks(buffer.bytes(), start, most, verify);
    }
    return nb::make_tuple(table_of(found.chunks), found.next, found.faulty ? to_python(found.fault) : nb::none());
}

} // namespace

void register_riegeli(nb::module_& module) {
    // NOLINTNEXTLINE(bugprone-unused-raii): declares the class to Python.
    nb::class_<View>(module, "View", nb::type_slots(view_slots), "Bytes, through the buffer protocol.");
    nb::class_<HeldChunks>(module, "Chunks", "Some chunks of a Riegeli file on their way to records.")
        .def("__len__", [](const HeldChunks& self) { return self.chunks->size(); })
        .def(
            "begin",
            [](const HeldChunks& self, std::size_t chunk) {
                if (chunk >= self.chunks->size()) throw nb::index_error("no such chunk");
                return self.chunks->begin(chunk);
            },
            nb::arg("chunk"), "Where a chunk begins.")
        .def_prop_ro(
            "ready", [](const HeldChunks& self) { return self.chunks->jobs().empty(); },
            "Whether all records are decoded.")
        .def("jobs", &jobs_of, nb::sig("def jobs(self) -> list[tuple[int, memoryview, memoryview, int]]"),
             "The data to decompress before `advance`: codec (98 Brotli, 115 Snappy, 122 unusual Zstandard), source, "
             "destination (which must be filled exactly), and number of the chunk.")
        .def("advance", guarded([](HeldChunks& self) {
                 const nb::gil_scoped_release release;
                 self.chunks->advance();
             }),
             "Continue after all jobs are done.")
        .def(
            "view",
            [](nb::handle self, std::size_t record) {
                const auto& held = nb::cast<const HeldChunks&>(self);
                const auto& records = held.chunks->records();
                if (record >= records.size()) throw nb::index_error("no such record");
                const Bytes bytes = records[record];
                if (nb::object copy = copy_of_mapped(bytes, mapped_of(held))) return copy;
                return memoryview_of(self, {const_cast<std::byte*>(bytes.data()), bytes.size()}, false);
            },
            nb::arg("record"), nb::sig("def view(self, record: int) -> memoryview"),
            "One record, as a view that keeps these chunks alive.")
        .def(
            "spans", [](nb::handle self) { return spans_of(self); }, nb::sig("def spans(self) -> Spans"),
            "All records, in order.")
        .def_prop_ro(
            "needed", [](const HeldChunks& self) { return static_cast<int>(self.chunks->needed()); },
            "The codec of the last job; 0 without any.")
        .def_prop_ro(
            "held_bytes", [](const HeldChunks& self) { return self.chunks->held_bytes(); },
            "Memory held in addition to the file, in bytes.");
    module.def(
        "open_chunks",
        guarded([](nb::object data, Indices begins, std::optional<Indices> counts, std::uint64_t most_bytes,
                   bool verify, unsigned threads, std::uint64_t most_own) {
            const std::size_t count = begins.shape(0);
            if (counts && counts->shape(0) != count) throw nb::value_error("begins and counts differ in length");
            const std::span<const std::int64_t> must =
                counts ? std::span{counts->data(), count} : std::span<const std::int64_t>{};
            return HeldChunks(
                std::move(data),
                {{begins.data(), count}, must, most_bytes, verify, riegeli::most_decoded_bytes, threads, most_own});
        }),
        nb::arg("data"), nb::arg("begins"), nb::arg("counts").none() = nb::none(), nb::kw_only(), nb::arg("most_bytes"),
        nb::arg("verify"), nb::arg("threads") = 1, nb::arg("most_own") = UINT64_MAX,
        nb::sig("def open_chunks(data: collections.abc.Buffer, begins: numpy.typing.NDArray[numpy.int64], counts: "
                "numpy.typing.NDArray[numpy.int64] | None = None, *, most_bytes: int, verify: bool, threads: int = 1, "
                "most_own: int = ...) -> Chunks"),
        "Open chunks with these numbers of records: as many as decode to at most most_bytes, but at least one, with up "
        "to `threads` threads. Zstandard frames of more than most_own bytes become jobs for a library.");
    module.def(
        "open_chunk",
        guarded([](nb::object data, std::int64_t begin, std::int64_t count, bool verify, std::uint64_t most_own) {
            return HeldChunks(std::move(data),
                              {{&begin, 1}, {&count, 1}, 0, verify, riegeli::most_decoded_bytes, 1, most_own});
        }),
        nb::arg("data"), nb::arg("begin"), nb::arg("count"), nb::kw_only(), nb::arg("verify"),
        nb::arg("most_own") = UINT64_MAX,
        nb::sig("def open_chunk(data: collections.abc.Buffer, begin: int, count: int, *, verify: bool, most_own: int = "
                "...) -> Chunks"),
        "Open one chunk. See `open_chunks`.");
    module.def("gather_chunks", guarded(&gather), nb::arg("chunks"), nb::arg("which"), nb::arg("records"),
               nb::sig("def gather_chunks(chunks: list[Chunks], which: numpy.typing.NDArray[numpy.int32], records: "
                       "numpy.typing.NDArray[numpy.int64]) -> Spans"),
               "Spans over records of decoded chunks. Few records of much memory are copied, so that they do not keep "
               "it alive.");
    module.def("pick_spans", &pick, nb::arg("parts"), nb::arg("which"), nb::arg("positions"),
               nb::sig("def pick_spans(parts: list[Spans], which: numpy.typing.NDArray[numpy.int32], positions: "
                       "numpy.typing.NDArray[numpy.int64]) -> Spans"),
               "Record positions[i] of parts[which[i]], for every i, over the same bytes.");
    module.def("join_spans", &join, nb::arg("parts"), nb::sig("def join_spans(parts: list[Spans]) -> Spans"),
               "The records of several spans, concatenated, over the same bytes.");
    module.def("scan_chunks", guarded(&scan), nb::arg("data"), nb::arg("start"), nb::kw_only(), nb::arg("most"),
               nb::arg("verify"),
               nb::sig("def scan_chunks(data: collections.abc.Buffer, start: int, *, most: int, verify: bool) -> "
                       "tuple[numpy.typing.NDArray[numpy.int64], int, FormatError | None]"),
               "Scan chunk headers. Returns a row for each chunk (begin, end, type, records, decoded size), where the "
               "next one begins, and its fault if one ended the scan.");
    module.def("find_chunk", guarded([](nb::object data, std::uint64_t position) {
                   const Buffer buffer(data);
                   const nb::gil_scoped_release release;
                   return riegeli::find_chunk(buffer.bytes(), position);
               }),
               nb::arg("data"), nb::arg("position"),
               nb::sig("def find_chunk(data: collections.abc.Buffer, position: int) -> int"),
               "Where the next chunk at or after a damaged position begins; the size of the data if there is none.");
    module.def("bad_block_headers", guarded([](nb::object data) {
                   const Buffer buffer(data);
                   const nb::gil_scoped_release release;
                   return riegeli::bad_block_headers(buffer.bytes());
               }),
               nb::arg("data"), nb::sig("def bad_block_headers(data: collections.abc.Buffer) -> list[int]"),
               "The positions of block headers with wrong hashes.");
    module.def("riegeli_hash", guarded([](nb::object data) { return riegeli_hash(Buffer(data).bytes()); }),
               nb::arg("data"), nb::sig("def riegeli_hash(data: collections.abc.Buffer) -> int"),
               "HighwayHash-64 with Riegeli's key.");
}

} // namespace headrace::bind
