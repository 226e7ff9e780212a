#include "core/riegeli/recent.hpp"

#include <algorithm>

#include "core/base/thread_team.hpp"
#include "core/checksum/highway_hash.hpp"

namespace headrace::riegeli {
namespace {

constexpr std::size_t hashed_together = 4; // chunks

void open_together(const std::shared_ptr<Pool>& pool, std::span<GroupedPart> parts, std::uint64_t most_packed) {
    std::array<GroupedPart*, hashed_together> checked{};
    std::array<std::size_t, hashed_together + 1> ends{};
    std::vector<Bytes> pieces;
    std::size_t count = 0;
    for (GroupedPart& part : parts) {
        if (part.chunk) continue;
        part.chunk = GroupedChunk::open(pool, part.file, part.begin, part.count, {false, most_packed});
        if (!part.chunk || !part.check_hash) continue;
        part.chunk->add_pieces(part.file, pieces);
        checked[count++] = &part;
        ends[count] = pieces.size();
    }
    std::array<Pieces, hashed_together> inputs;
    std::array<std::uint64_t, hashed_together> hashes{};
    for (std::size_t i = 0; i < count; ++i) inputs[i] = Pieces(pieces).subspan(ends[i], ends[i + 1] - ends[i]);
    riegeli_hash_many(std::span(inputs).first(count), hashes);
    for (std::size_t i = 0; i < count; ++i)
        if (hashes[i] != checked[i]->chunk->data_hash()) checked[i]->chunk.reset();
}

} // namespace

std::shared_ptr<GroupedChunk> RecentChunks::find(std::uint64_t number) {
    const auto found = places_.find(number);
    if (found == places_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->chunk;
}

void RecentChunks::keep(std::uint64_t number, std::shared_ptr<GroupedChunk> chunk) {
    const std::size_t bytes = chunk->held_bytes() + overhead;
    const auto found = places_.find(number);
    if (found != places_.end()) {
        Place& place = *found->second;
        held_bytes_ += bytes - place.bytes;
        place.chunk = std::move(chunk);
        place.bytes = bytes;
        order_.splice(order_.begin(), order_, found->second);
    } else {
        order_.push_front({number, std::move(chunk), bytes});
        try {
            places_.emplace(number, order_.begin());
        } catch (...) {
            order_.pop_front();
            throw;
        }
        held_bytes_ += bytes;
    }
    while (held_bytes_ > most_bytes_) drop(order_.back().number);
}

void RecentChunks::drop(std::uint64_t number) {
    const auto found = places_.find(number);
    if (found == places_.end()) return;
    held_bytes_ -= found->second->bytes;
    order_.erase(found->second);
    places_.erase(found);
}

bool RecentChunks::reserve(const GroupedChunk* chunk) {
    if (std::ranges::find(reserved_, chunk) != reserved_.end()) return false;
    reserved_.push_back(chunk);
    return true;
}

void RecentChunks::release(const GroupedChunk* chunk) noexcept { std::erase(reserved_, chunk); }

void open_parts(const std::shared_ptr<Pool>& pool, std::span<GroupedPart> parts, std::uint64_t most_packed,
                unsigned threads) {
    if (parts.empty()) return;
    // As many turns for each thread.
    const std::size_t team = std::max(threads, 1U);
    const std::size_t turns = (parts.size() + hashed_together * team - 1) / (hashed_together * team) * team;
    const std::size_t together = (parts.size() + turns - 1) / turns;
    ThreadTeam::shared().run(parts.size(), together, threads, [&](std::size_t i, std::size_t end) {
        for (; i < end; i += together) open_together(pool, parts.subspan(i, std::min(together, end - i)), most_packed);
    });
}

void reach_parts(std::span<GroupedPart> parts, bool whole, unsigned threads) {
    ThreadTeam::shared().run(parts.size(), 1, threads, [&](std::size_t i, std::size_t end) {
        for (; i < end; ++i) {
            GroupedPart& part = parts[i];
            part.is_here =
                part.chunk && (whole ? part.chunk->load(part.file) : part.chunk->reach(part.file, part.last));
            if (part.copies.empty() || !part.chunk) continue;
            if (part.is_here)
                for (const RecordCopy& one : part.copies) part.chunk->copy(part.file, one.record, one.to);
            part.chunk->forget();
        }
    });
}

} // namespace headrace::riegeli
