#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "bind/support.hpp"
#include "core/base/thread_team.hpp"
#include "core/riegeli/recent.hpp"

namespace headrace::bind {
namespace {

using riegeli::GroupedChunk;
using riegeli::GroupedPart;
using riegeli::RecentChunks;

constexpr std::size_t groups_at_once = 256;                       // chunks opened before records are taken from them
constexpr std::uint64_t most_unpacked = std::uint64_t{256} << 20; // bytes decompressed before that
constexpr std::uint64_t worth_help = 64 << 10;                    // bytes: about ten microseconds of decompressing
constexpr std::size_t copied_together = 4;                        // records per stretch of a thread
constexpr std::size_t worth_copying_together = 512 << 10;         // bytes: about fifty microseconds of copying

constexpr std::size_t most_of_bytes = 32 << 10; // a record that is handed over as a bytes object

// Chunks that stay, whatever becomes of the recent ones.
struct PinnedChunks {
    std::unordered_map<std::uint64_t, std::shared_ptr<GroupedChunk>> chunks;
};

using Flags = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The recent chunks of a set of files, where all chunks are, and which had the right hash. The GIL protects it, so that
// a fork finds it whole.
class ChunkStore {
  public:
    ChunkStore(Indices firsts, Indices begins, std::optional<Flags> sound, std::size_t most_bytes)
        : firsts_(std::move(firsts)),
          begins_(std::move(begins)),
          sound_(std::move(sound)),
          most_bytes_(most_bytes),
          process_(process_id()),
          recent_(std::make_unique<RecentChunks>(most_bytes)) {
        if (firsts_.shape(0) != begins_.shape(0) + 1) throw nb::value_error("firsts and begins do not match");
        if (sound_ && sound_->shape(0) != size()) throw nb::value_error("sound and begins do not match");
    }

    [[nodiscard]] std::size_t size() const noexcept { return begins_.shape(0); }
    [[nodiscard]] std::int64_t first(std::size_t chunk) const noexcept { return firsts_.data()[chunk]; }
    [[nodiscard]] std::int64_t begin(std::size_t chunk) const noexcept { return begins_.data()[chunk]; }
    [[nodiscard]] bool must_check(std::size_t chunk) const noexcept { return sound_ && sound_->data()[chunk] == 0; }
    void note_sound(std::size_t chunk) const noexcept {
        if (sound_) sound_->data()[chunk] = 1;
    }

    [[nodiscard]] RecentChunks& recent() {
        if (process_ != process_id()) {
            // Leaked on purpose: their blocks belong to a pool whose lock a thread of the parent may hold.
            static_cast<void>(recent_.release());
            recent_ = std::make_unique<RecentChunks>(most_bytes_);
            process_ = process_id();
        }
        return *recent_;
    }

    // The chunk of a record. Most files have chunks of one size, so look where it would be then.
    [[nodiscard]] std::size_t chunk_of(std::int64_t record) const {
        const std::size_t count = size();
        if (count == 0 || record < first(0) || record >= first(count)) throw nb::index_error("no such record");
        const auto guess = static_cast<std::size_t>(static_cast<double>(record) / static_cast<double>(first(count)) *
                                                    static_cast<double>(count));
        for (const std::size_t near : {guess, guess + 1, guess - 1})
            if (near < count && first(near) <= record && record < first(near + 1)) return near;
        const std::int64_t* const after = std::upper_bound(firsts_.data(), firsts_.data() + count + 1, record);
        return static_cast<std::size_t>(after - firsts_.data()) - 1;
    }

  private:
    Indices firsts_, begins_;
    std::optional<Flags> sound_; // nothing: hashes are not checked
    std::size_t most_bytes_;
    int process_;
    std::unique_ptr<RecentChunks> recent_;
};

nb::object array_of(const std::vector<std::int64_t>& numbers) {
    Pool::Block block = batch_pool()->take(numbers.size() * sizeof(std::int64_t));
    if (!numbers.empty()) std::memcpy(block.data(), numbers.data(), numbers.size() * sizeof(std::int64_t));
    return to_numpy(std::move(block), nb::dtype<std::int64_t>(), {numbers.size()});
}

nb::object chunks_of(const ChunkStore& store, Indices records) {
    std::vector<std::int64_t> chunks(records.shape(0));
    for (std::size_t i = 0; i < chunks.size(); ++i)
        chunks[i] = static_cast<std::int64_t>(store.chunk_of(records.data()[i]));
    return array_of(chunks);
}

// The records wanted of one chunk.
struct Group {
    std::uint64_t number;
    std::size_t from, to; // in the order of chunks
    bool is_reserved = false;
    bool is_shared = false;  // Views of its memory are handed over.
    bool is_new = false;     // The chunk was not among the recent ones.
    bool is_passing = false; // Its records are copied, and what was decompressed is freed at once.
};

// One call that takes records from chunks.
class Gathering {
  public:
    struct Options {
        bool in_order;
        bool whole;
        std::uint64_t most_packed; // Larger compressed chunks are left to the general path.
        unsigned threads;
    };

    Gathering(ChunkStore& store, const std::vector<Bytes>& files, const std::int32_t* which, Indices chunks,
              Indices records, const PinnedChunks* pinned, Options options)
        : store_(store),
          files_(files),
          which_(which),
          chunks_(chunks.data()),
          records_(records.data()),
          count_(records.shape(0)),
          pinned_(pinned),
          options_(options) {
        held.spans.payloads.resize(count_);
        order_.resize(count_);
        std::iota(order_.begin(), order_.end(), 0);
        if (!std::is_sorted(chunks_, chunks_ + count_))
            std::ranges::sort(order_, {}, [&](std::size_t i) { return chunks_[i]; });
        for (std::size_t i = 0; i < count_; ++i) {
            const std::int64_t chunk = chunks_[order_[i]];
            if (chunk < 0 || static_cast<std::size_t>(chunk) >= store.size()) throw nb::index_error("no such chunk");
            const auto number = static_cast<std::uint64_t>(chunk);
            if (groups_.empty() || groups_.back().number != number) groups_.push_back({number, i, i});
            ++groups_.back().to;
        }
    }

    Gathering(const Gathering&) = delete;
    Gathering& operator=(const Gathering&) = delete;
    ~Gathering() {
        for (std::size_t i = 0; i < groups_.size(); ++i)
            if (groups_[i].is_reserved) store_.recent().release(parts_[i].chunk.get());
    }

    void run(BytesWanted& wanted) {
        makes_bytes_ = wanted.take();
        if (makes_bytes_) held.whole.resize(count_);
        parts_.resize(groups_.size(), {{}, 0, 0, false, 0});
        for (std::size_t at = 0; at < groups_.size(); at += groups_at_once) {
            const std::size_t end = std::min(at + groups_at_once, groups_.size());
            find(at, end);
            for (std::size_t i = at; i < end;) i = take(i, end);
        }
        std::ranges::sort(left);
    }

    HeldSpans held;
    std::vector<std::int64_t> left; // Requested records that the general path must read.
    bool is_unpacked = false;

  private:
    [[nodiscard]] std::size_t place(std::size_t i, const Group& group) const {
        return static_cast<std::size_t>(records_[order_[i]] - store_.first(group.number));
    }

    void find(std::size_t at, std::size_t end) {
        RecentChunks& recent = store_.recent();
        bool is_any_new = false;
        for (std::size_t k = at; k < end; ++k) {
            Group& group = groups_[k];
            GroupedPart& part = parts_[k];
            const auto file = which_ == nullptr ? 0 : static_cast<std::size_t>(which_[order_[group.from]]);
            if (file >= files_.size()) throw nb::index_error("no such buffer");
            part.file = files_[file];
            part.begin = static_cast<std::uint64_t>(store_.begin(group.number));
            part.count = static_cast<std::uint64_t>(store_.first(group.number + 1) - store_.first(group.number));
            part.check_hash = store_.must_check(group.number);
            part.last = 0;
            for (std::size_t i = group.from; i < group.to; ++i) {
                if (place(i, group) >= part.count) throw nb::index_error("no such record in its chunk");
                part.last = std::max(part.last, place(i, group));
            }
            part.chunk = known(group.number);
            if (part.chunk && !part.chunk->has(part.last)) {
                group.is_reserved = recent.reserve(part.chunk.get());
                if (!group.is_reserved) part.chunk.reset(); // Another thread extends it now.
            }
            group.is_new = !part.chunk;
            is_any_new = is_any_new || group.is_new;
        }
        if (!is_any_new) return;
        const nb::gil_scoped_release release;
        riegeli::open_parts(batch_pool(), std::span(parts_).subspan(at, end - at), options_.most_packed,
                            options_.threads);
    }

    [[nodiscard]] std::shared_ptr<GroupedChunk> known(std::uint64_t number) {
        if (pinned_ != nullptr) {
            const auto found = pinned_->chunks.find(number);
            if (found != pinned_->chunks.end()) return found->second;
        }
        return store_.recent().find(number);
    }

    // Takes the records of some groups. Returns the next one.
    std::size_t take(std::size_t at, std::size_t end) {
        std::uint64_t unpacked = 0;
        std::size_t stop = at;
        for (; stop < end; ++stop) {
            GroupedPart& part = parts_[stop];
            if (!part.chunk) continue;
            const std::uint64_t size = options_.whole || !part.chunk->has(part.last) ? part.chunk->decoded_size() : 0;
            if (unpacked != 0 && unpacked + size > most_unpacked) break;
            unpacked += size;
        }
        const std::vector<riegeli::RecordCopy> copies = prepare_passing(at, stop);
        {
            const nb::gil_scoped_release release;
            riegeli::reach_parts(std::span(parts_).subspan(at, stop - at), options_.whole,
                                 unpacked < worth_help ? 1 : options_.threads);
        }
        hand_over(at, stop);
        GuardedRead* const guard = GuardedRead::current();
        const bool is_lost = guard != nullptr && guard->lost() != nullptr;
        for (std::size_t k = at; k < stop; ++k) settle(groups_[k], parts_[k], is_lost);
        return stop;
    }

    struct Copy {
        std::size_t part;
        std::size_t place;
        std::size_t position;
        std::size_t size;
        std::byte* to;
    };

    [[nodiscard]] std::size_t wanted_bytes(const Group& group, const GroupedPart& part) const {
        std::size_t wanted = 0;
        for (std::size_t i = group.from; i < group.to; ++i) wanted += part.chunk->size(place(i, group));
        return wanted;
    }

    // A chunk that must be decompressed stays in memory once it is wanted for the second time. In data far larger than
    // that memory, chunks would only push each other out, and writing to memory that is not in a processor's cache
    // takes about as long as decompressing.
    std::vector<riegeli::RecordCopy> prepare_passing(std::size_t at, std::size_t stop) {
        std::vector<riegeli::RecordCopy> passing;
        if (options_.in_order || options_.whole) return passing;
        std::vector<Copy> copies;
        std::size_t total = 0;
        for (std::size_t k = at; k < stop; ++k) {
            Group& group = groups_[k];
            const GroupedPart& part = parts_[k];
            group.is_passing = group.is_new && part.chunk && !part.chunk->has(part.last) &&
                               (makes_bytes_ || 2 * wanted_bytes(group, part) < part.chunk->decoded_size());
            for (std::size_t i = group.from; group.is_passing && i < group.to; ++i) {
                const std::size_t record = place(i, group);
                copies.push_back({k, record, order_[i], part.chunk->size(record), nullptr});
                total += copies.back().size;
            }
        }
        make_room(copies, total);
        passing.reserve(copies.size());
        for (const Copy& one : copies) passing.push_back({one.place, one.to});
        std::span<const riegeli::RecordCopy> rest = passing;
        for (std::size_t k = at; k < stop; ++k) {
            if (!groups_[k].is_passing) continue;
            const std::size_t count = groups_[k].to - groups_[k].from;
            parts_[k].copies = rest.first(count);
            rest = rest.subspan(count);
        }
        return passing;
    }

    void leave(const Group& group) {
        for (std::size_t i = group.from; i < group.to; ++i) {
            left.push_back(static_cast<std::int64_t>(order_[i]));
            held.spans.payloads[order_[i]] = {};
            if (makes_bytes_) held.whole[order_[i]].reset();
        }
    }

    void hand_over(std::size_t at, std::size_t stop) {
        std::vector<Copy> copies;
        std::size_t total = 0;
        for (std::size_t k = at; k < stop; ++k) {
            Group& group = groups_[k];
            GroupedPart& part = parts_[k];
            part.copies = {};
            if (!part.is_here) leave(group);
            if (!part.is_here || group.is_passing) continue;
            // Few records of much memory are copied, so that they do not keep it alive.
            group.is_shared = !makes_bytes_ && wanted_bytes(group, part) >= part.chunk->held_bytes() / 2;
            for (std::size_t i = group.from; i < group.to; ++i) {
                const std::size_t record = place(i, group);
                const Bytes view = part.chunk->view(part.file, record);
                const bool is_view = view.data() != nullptr && (group.is_shared || !part.chunk->owns(view));
                if (is_view && (!makes_bytes_ || view.empty())) {
                    held.spans.payloads[order_[i]] = view;
                    continue;
                }
                copies.push_back({k, record, order_[i], part.chunk->size(record), nullptr});
                total += copies.back().size;
            }
            if (group.is_shared) held.kept.emplace_back(part.chunk);
        }
        make_room(copies, total);
        const nb::gil_scoped_release release;
        ThreadTeam::shared().run(copies.size(), copied_together, total < worth_copying_together ? 1 : options_.threads,
                                 [&](std::size_t i, std::size_t end) {
                                     for (; i < end; ++i) {
                                         const Copy& one = copies[i];
                                         parts_[one.part].chunk->copy(parts_[one.part].file, one.place, one.to);
                                     }
                                 });
    }

    void make_room(std::vector<Copy>& copies, std::size_t total) {
        if (copies.empty()) return;
        is_unpacked = true;
        std::byte* to = nullptr;
        if (!makes_bytes_) {
            held.blocks.push_back(batch_pool()->take(total));
            to = held.blocks.back().data();
        }
        for (Copy& one : copies) {
            if (makes_bytes_) {
                // A new bytes object, not yet visible to other code, so it can be filled without the GIL.
                nb::object made = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(one.size)));
                if (!made) throw nb::python_error();
                one.to = reinterpret_cast<std::byte*>(PyBytes_AsString(made.ptr()));
                held.whole[one.position] = std::move(made);
            } else {
                one.to = to;
                to += one.size;
            }
            held.spans.payloads[one.position] = {one.to, one.size};
        }
    }

    // Decides what to remember of a chunk.
    void settle(Group& group, const GroupedPart& part, bool is_lost) {
        RecentChunks& recent = store_.recent();
        if (group.is_reserved) {
            recent.release(part.chunk.get());
            group.is_reserved = false;
        }
        const bool is_finished = options_.in_order && part.last + 1 == part.count;
        if (is_lost || !part.is_here || is_finished) recent.drop(group.number);
        else if (!group.is_passing || !recent.find(group.number)) recent.keep(group.number, part.chunk);
        if (!is_lost && part.is_here) store_.note_sound(group.number);
    }

    ChunkStore& store_;
    const std::vector<Bytes>& files_;
    const std::int32_t* which_;
    const std::int64_t* chunks_;
    const std::int64_t* records_;
    std::size_t count_;
    const PinnedChunks* pinned_;
    Options options_;
    bool makes_bytes_ = false;
    std::vector<std::size_t> order_; // requested records by chunk
    std::vector<Group> groups_;
    std::vector<GroupedPart> parts_; // of the groups
};

nb::tuple gather_grouped(ChunkStore& store, nb::object buffers, std::optional<Which> which, Indices chunks,
                         Indices records, nb::handle_t<BytesWanted> wanted, PinnedChunks* pinned, bool in_order,
                         bool whole, std::uint64_t most_packed, unsigned threads) {
    const std::size_t count = records.shape(0);
    if ((which && which->shape(0) != count) || chunks.shape(0) != count)
        throw nb::value_error("which, chunks and records differ in length");
    const nb::object parent = hold_buffers(std::move(buffers));
    const auto& from = nb::cast<const HeldBuffers&>(parent);
    const std::int32_t* const numbers = which ? which->data() : nullptr;
    Gathering gathering(store, from.bytes, numbers, chunks, records, pinned, {in_order, whole, most_packed, threads});
    gathering.held.parent = parent;
    gathering.held.mapped = from.mapped(numbers, count);
    gathering.run(nb::cast<BytesWanted&>(wanted));
    if (gathering.is_unpacked) gathering.held.wanted = nb::borrow(wanted);
    nb::object left = gathering.left.empty() ? nb::none() : array_of(gathering.left);
    return nb::make_tuple(std::move(gathering.held), left);
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
        if (is_new) chunk->forget(); // until it is wanted again: see Gathering::prepare_passing
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
    return nb::make_tuple(std::move(pinned), array_of(missing));
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

void register_riegeli_grouped(nb::module_& module) {
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
        .def("gather", guarded(&gather_grouped), nb::arg("buffers"), nb::arg("which").none(), nb::arg("chunks"),
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
