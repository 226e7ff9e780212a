#include "bind/riegeli/chunk_store.hpp"

#include <algorithm>

namespace headrace::bind {

// Most files have chunks of one size, so look where it would be then.
std::size_t ChunkStore::chunk_of(std::int64_t record) const {
    const std::size_t count = size();
    if (count == 0 || record < first(0) || record >= first(count)) throw nb::index_error("no such record");
    const auto guess = static_cast<std::size_t>(static_cast<double>(record) / static_cast<double>(first(count)) *
                                                static_cast<double>(count));
    for (const std::size_t near : {guess, guess + 1, guess - 1})
        if (near < count && first(near) <= record && record < first(near + 1)) return near;
    const std::int64_t* const after = std::upper_bound(firsts_.data(), firsts_.data() + count + 1, record);
    return static_cast<std::size_t>(after - firsts_.data()) - 1;
}

nb::object to_array(const std::vector<std::int64_t>& numbers) {
    Pool::Block block = batch_pool()->take(numbers.size() * sizeof(std::int64_t));
    if (!numbers.empty()) std::memcpy(block.data(), numbers.data(), numbers.size() * sizeof(std::int64_t));
    return to_numpy(std::move(block), nb::dtype<std::int64_t>(), {numbers.size()});
}

namespace {

constexpr std::size_t most_of_bytes = 32 << 10; // a record that is handed over as a bytes object

nb::object chunks_of(const ChunkStore& store, Indices records) {
    std::vector<std::int64_t> chunks(records.shape(0));
    for (std::size_t i = 0; i < chunks.size(); ++i)
        chunks[i] = static_cast<std::int64_t>(store.chunk_of(records.data()[i]));
    return to_array(chunks);
}

// Lets a chunk go on all ways out.
class Reserved {
  public:
    Reserved(RecentChunks& recent, const GroupedChunk* chunk) : recent_(recent), chunk_(chunk) {}
    ~Reserved() {
        if (chunk_ != nullptr) recent_.release(chunk_);
    }
    Reserved(const Reserved&) = delete;
    Reserved& operator=(const Reserved&) = delete;

  private:
    RecentChunks& recent_;
    const GroupedChunk* chunk_;
};

// A copy of one record, as memory that Python owns.
nb::object copy_of(const GroupedChunk& chunk, Bytes file, std::size_t place) {
    const std::size_t size = chunk.size(place);
    if (size > most_of_bytes) { // Page faults would cost more than the copy.
        Pool::Block block = batch_pool()->take(size);
        {
            const nb::gil_scoped_release release;
            chunk.copy(file, place, block.data());
        }
        return to_numpy(std::move(block), nb::dtype<std::uint8_t>(), {size});
    }
    nb::object bytes = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
    if (!bytes) throw nb::python_error();
    chunk.copy(file, place, reinterpret_cast<std::byte*>(PyBytes_AsString(bytes.ptr())));
    return bytes;
}

nb::object take_one(ChunkStore& store, nb::object data, std::size_t number, std::int64_t record,
                    std::uint64_t most_packed) {
    if (number >= store.size() || record < store.first(number) || record >= store.first(number + 1))
        throw nb::index_error("no such record in its chunk");
    const Buffer buffer(data);
    const auto place = static_cast<std::size_t>(record - store.first(number));
    RecentChunks& recent = store.recent();
    std::shared_ptr<GroupedChunk> chunk = recent.find(number);
    const bool is_reserved = chunk && !chunk->has(place) && recent.reserve(chunk.get());
    if (chunk && !is_reserved && !chunk->has(place)) chunk.reset(); // Another thread extends it now.
    const bool is_new = !chunk, is_here = chunk && chunk->has(place);
    if (!is_here) {
        const Reserved reserved(recent, is_reserved ? chunk.get() : nullptr);
        GroupedPart part{buffer.bytes(),
                         static_cast<std::uint64_t>(store.begin(number)),
                         static_cast<std::uint64_t>(store.first(number + 1) - store.first(number)),
                         store.must_check(number),
                         place,
                         std::move(chunk)};
        {
            const nb::gil_scoped_release release;
            riegeli::open_parts(batch_pool(), {&part, 1}, most_packed, 1);
            riegeli::reach_parts({&part, 1}, false, 1);
        }
        if (!part.is_here) {
            recent.drop(number);
            return nb::none();
        }
        chunk = std::move(part.chunk);
    } else if (buffer.bytes().size() < chunk->file_end() && !chunk->is_loaded()) {
        return nb::none();
    }
    const nb::object copy = copy_of(*chunk, buffer.bytes(), place);
    GuardedRead* const guard = GuardedRead::current();
    if (guard != nullptr && guard->lost() != nullptr) {
        recent.drop(number);
        return nb::none(); // The guard raises the error.
    }
    if (!is_here) {
        store.note_sound(number);
        if (is_new) chunk->forget(); // until it is wanted again: see Gathering in gather.cpp
        if (!is_new || !recent.find(number)) recent.keep(number, std::move(chunk));
    }
    nb::object view = nb::steal(PyMemoryView_FromObject(copy.ptr()));
    if (!view) throw nb::python_error();
    return PyBytes_Check(copy.ptr()) ? view : view.attr("toreadonly")();
}

nb::tuple pin(ChunkStore& store, Indices chunks) {
    PinnedChunks pinned;
    std::vector<std::int64_t> missing;
    for (std::size_t i = 0; i < chunks.shape(0); ++i) {
        const auto number = static_cast<std::uint64_t>(chunks.data()[i]);
        std::shared_ptr<GroupedChunk> found = store.recent().find(number);
        if (found && found->is_loaded()) pinned.chunks.emplace(number, std::move(found));
        else missing.push_back(chunks.data()[i]);
    }
    return nb::make_tuple(std::move(pinned), to_array(missing));
}

// Remembers chunks that were decoded elsewhere.
void put(ChunkStore& store, Indices chunks, nb::handle decoded) {
    std::span<const Bytes> records = records_of(decoded);
    for (std::size_t i = 0; i < chunks.shape(0); ++i) {
        const auto number = static_cast<std::uint64_t>(chunks.data()[i]);
        if (number >= store.size()) throw nb::index_error("no such chunk");
        const auto count = static_cast<std::size_t>(store.first(number + 1) - store.first(number));
        if (count > records.size()) throw nb::value_error("these chunks hold fewer records");
        std::shared_ptr<GroupedChunk> copy;
        {
            const nb::gil_scoped_release release;
            copy = GroupedChunk::copy_of(batch_pool(), records.first(count));
        }
        GuardedRead* const guard = GuardedRead::current();
        if (guard != nullptr && guard->lost() != nullptr) return;
        if (copy) store.recent().keep(number, std::move(copy));
        records = records.subspan(count);
    }
}

} // namespace

void register_chunk_store(nb::module_& module) {
    // NOLINTNEXTLINE(bugprone-unused-raii): declares the class to Python.
    nb::class_<PinnedChunks>(module, "PinnedChunks", "Decoded chunks that stay in memory.");
    nb::class_<ChunkStore>(
        module, "ChunkStore",
        "Where the chunks of some files are, and the chunks read last, up to most_bytes. The hashes of "
        "chunks that are not sound yet are checked, and right ones noted in sound (None: no hash is "
        "checked).")
        .def(nb::init<Indices, Indices, std::optional<Flags>, std::size_t>(), nb::arg("firsts"), nb::arg("begins"),
             nb::arg("sound").none(), nb::kw_only(), nb::arg("most_bytes"),
             nb::sig("def __init__(self, firsts: numpy.typing.NDArray[numpy.int64], begins: "
                     "numpy.typing.NDArray[numpy.int64], sound: numpy.typing.NDArray[numpy.uint8] | None, *, "
                     "most_bytes: int) -> None"))
        .def("chunks_of", &chunks_of, nb::arg("records"),
             nb::sig("def chunks_of(self, records: numpy.typing.NDArray[numpy.int64]) -> "
                     "numpy.typing.NDArray[numpy.int64]"),
             "The chunk of each record.")
        .def("gather", guarded(&gather_records), nb::arg("buffers"), nb::arg("which").none(), nb::arg("chunks"),
             nb::arg("records"), nb::arg("bytes_wanted"), nb::arg("pinned").none() = nb::none(), nb::kw_only(),
             nb::arg("in_order"), nb::arg("whole"), nb::arg("most_packed"), nb::arg("threads"),
             nb::sig("def gather(self, buffers: Buffers | list[typing.Any], which: "
                     "numpy.typing.NDArray[numpy.int32] | None, chunks: numpy.typing.NDArray[numpy.int64], records: "
                     "numpy.typing.NDArray[numpy.int64], bytes_wanted: BytesWanted, pinned: PinnedChunks | None = "
                     "None, *, in_order: bool, whole: bool, most_packed: int, threads: int) -> "
                     "tuple[Spans, numpy.typing.NDArray[numpy.int64] | None]"),
             "These records, which are in these chunks of these buffers, and the places of those in the request that "
             "the general path must read, if there are any. Chunks are decompressed as far as needed, or wholly. In "
             "order, finished chunks are not kept. Compressed chunks of more than most_packed bytes are left.")
        .def("chunk_of", &ChunkStore::chunk_of, nb::arg("record"), "The chunk of a record.")
        .def("take", guarded(&take_one), nb::arg("data"), nb::arg("chunk"), nb::arg("record"), nb::arg("most_packed"),
             nb::sig("def take(self, data: collections.abc.Buffer, chunk: int, record: int, most_packed: int) -> "
                     "memoryview | None"),
             "A copy of one record, which is in this chunk of the data; nothing if the general path must read it.")
        .def("pin", &pin, nb::arg("chunks"),
             nb::sig("def pin(self, chunks: numpy.typing.NDArray[numpy.int64]) -> tuple[PinnedChunks, "
                     "numpy.typing.NDArray[numpy.int64]]"),
             "Those of these chunks that are in memory, and the numbers of the others.")
        .def("put", guarded(&put), nb::arg("chunks"), nb::arg("decoded"),
             nb::sig("def put(self, chunks: numpy.typing.NDArray[numpy.int64], decoded: Chunks) -> None"),
             "Keep chunks that were decoded elsewhere.")
        .def_prop_ro(
            "held_bytes", [](ChunkStore& self) { return self.recent().held_bytes(); },
            "The memory of the kept chunks, in bytes.")
        .def("__len__", [](ChunkStore& self) { return self.recent().size(); });
}

} // namespace headrace::bind
