#include "core/riegeli/recent.hpp"

#include <algorithm>

#include "core/base/thread_team.hpp"

namespace headrace::riegeli {

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
    ThreadTeam::shared().run(parts.size(), 1, threads, [&](std::size_t i, std::size_t end) {
        for (; i < end; ++i) {
            GroupedPart& part = parts[i];
            if (!part.chunk)
                part.chunk =
                    GroupedChunk::open(pool, part.file, part.begin, part.count, {part.check_hash, most_packed});
        }
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
