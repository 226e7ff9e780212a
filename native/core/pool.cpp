#include "core/pool.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace penstock {
namespace {

constexpr std::align_val_t alignment{64};
constexpr std::uint64_t between_sweeps = 1024; // takings

// Size classes are eighths of a power of two: at most 1/8 of a block is unused, and batches whose sizes differ
// a little (the last one of an epoch, ragged columns) still find each other's blocks.
std::size_t size_class(std::size_t size) {
    if (size <= 512) return 512;
    const std::size_t step = std::bit_floor(size) / 8;
    return (size + step - 1) / step * step;
}

} // namespace

Pool::~Pool() { clear(); }

Pool::Block& Pool::Block::operator=(Block&& other) noexcept {
    if (this != &other) {
        std::swap(pool_, other.pool_);
        std::swap(data_, other.data_);
        std::swap(capacity_, other.capacity_);
    }
    return *this;
}

Pool::Block::~Block() {
    if (data_ != nullptr) pool_->give_back(data_, capacity_);
}

Pool::Block Pool::take(std::size_t size) {
    const std::size_t capacity = size_class(size);
    {
        const std::lock_guard lock(mutex_);
        ++taken_;
        used_bytes_ += capacity;
        if (const auto found = idle_.find(capacity); found != idle_.end() && !found->second.blocks.empty()) {
            Idle& idle = found->second;
            std::byte* const data = idle.blocks.back();
            idle.blocks.pop_back();
            idle.least = std::min(idle.least, idle.blocks.size());
            idle_bytes_ -= capacity;
            ++recycled_;
            return {shared_from_this(), data, capacity};
        }
    }
    try {
        return {shared_from_this(), static_cast<std::byte*>(::operator new(capacity, alignment)), capacity};
    } catch (...) {
        const std::lock_guard lock(mutex_);
        used_bytes_ -= capacity;
        throw;
    }
}

void Pool::give_back(std::byte* data, std::size_t capacity) noexcept {
    std::vector<std::byte*> freed;
    {
        const std::lock_guard lock(mutex_);
        used_bytes_ -= capacity;
        try {
            if (taken_ - swept_ >= between_sweeps) freed = sweep();
            if (idle_bytes_ + capacity <= idle_limit_) {
                idle_[capacity].blocks.push_back(data);
                idle_bytes_ += capacity;
                data = nullptr;
            }
        } catch (const std::bad_alloc&) { // No room to remember it: free it below.
        }
    }
    for (std::byte* const block : freed) ::operator delete(block, alignment);
    if (data != nullptr) ::operator delete(data, alignment);
}

// Takes out what was not needed since the last time, for the caller to free.
std::vector<std::byte*> Pool::sweep() {
    std::size_t count = 0;
    for (const auto& [capacity, idle] : idle_) count += idle.least;
    std::vector<std::byte*> found;
    found.reserve(count);
    for (auto& [capacity, idle] : idle_) {
        const auto end = idle.blocks.begin() + static_cast<std::ptrdiff_t>(idle.least);
        found.insert(found.end(), idle.blocks.begin(), end);
        idle.blocks.erase(idle.blocks.begin(), end);
        idle_bytes_ -= capacity * idle.least;
        idle.least = idle.blocks.size();
    }
    swept_ = taken_;
    return found;
}

Pool::Stats Pool::stats() const {
    const std::lock_guard lock(mutex_);
    return {idle_bytes_, used_bytes_, taken_, recycled_};
}

void Pool::clear() {
    const std::lock_guard lock(mutex_);
    for (auto& [capacity, idle] : idle_)
        for (std::byte* const data : idle.blocks) ::operator delete(data, alignment);
    idle_.clear();
    idle_bytes_ = 0;
}

} // namespace penstock
