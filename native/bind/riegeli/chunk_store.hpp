#pragma once

#include <unordered_map>

#include "bind/support.hpp"
#include "core/base/thread_team.hpp"
#include "core/riegeli/recent.hpp"

namespace headrace::bind {

using riegeli::GroupedChunk;
using riegeli::GroupedPart;
using riegeli::RecentChunks;

/// Chunks that stay, whatever becomes of the recent ones.
struct PinnedChunks {
    std::unordered_map<std::uint64_t, std::shared_ptr<GroupedChunk>> chunks;
};

using Flags = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// The recent chunks of a set of files, where all chunks are, and which had the right hash. The GIL protects it, so
/// that a fork finds it whole.
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

    /// The chunk of a record. Throws IndexError if there is none.
    [[nodiscard]] std::size_t chunk_of(std::int64_t record) const;

  private:
    Indices firsts_, begins_;
    std::optional<Flags> sound_; // nothing: hashes are not checked
    std::size_t most_bytes_;
    int process_;
    std::unique_ptr<RecentChunks> recent_;
};

/// A new NumPy array of these numbers.
[[nodiscard]] nb::object to_array(const std::vector<std::int64_t>& numbers);

/// The records of one call, many chunks at a time, in gather.cpp.
[[nodiscard]] nb::tuple gather_records(ChunkStore& store, nb::object buffers, std::optional<Which> which,
                                       Indices chunks, Indices records, nb::handle_t<BytesWanted> wanted,
                                       PinnedChunks* pinned, bool in_order, bool whole, std::uint64_t most_packed,
                                       unsigned threads);

} // namespace headrace::bind
