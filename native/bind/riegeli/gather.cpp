#include <algorithm>
#include <numeric>

#include "bind/riegeli/chunk_store.hpp"
#include "core/base/thread_team.hpp"

namespace headrace::bind {
namespace {

constexpr std::size_t groups_at_once = 256;                       // chunks opened before records are taken from them
constexpr std::uint64_t most_unpacked = std::uint64_t{256} << 20; // bytes decompressed before that
constexpr std::uint64_t worth_help = 64 << 10;                    // bytes: about ten microseconds of decompressing
constexpr std::size_t copied_together = 4;                        // records per stretch of a thread
constexpr std::size_t worth_copying_together = 512 << 10;         // bytes: about fifty microseconds of copying

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
        } else {
            keep_heap(total);
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

} // namespace

nb::tuple gather_records(ChunkStore& store, nb::object buffers, std::optional<Which> which, Indices chunks,
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
    nb::object left = gathering.left.empty() ? nb::none() : to_array(gathering.left);
    return nb::make_tuple(std::move(gathering.held), left);
}

} // namespace headrace::bind
