#include "core/base/pool.hpp"

#include <algorithm>
#include <bit>
#include <fstream>
#include <new>
#include <string>

#include "core/base/thread_team.hpp"

// Not with AddressSanitizer, which detects writes past the end of a block, but not of a mapping.
#if (defined(__unix__) || defined(__APPLE__)) && !defined(__SANITIZE_ADDRESS__)
#if defined(__has_feature)
#if !__has_feature(address_sanitizer)
#define HEADRACE_MAPPED_BLOCKS 1
#endif
#else
#define HEADRACE_MAPPED_BLOCKS 1
#endif
#endif
#if defined(HEADRACE_MAPPED_BLOCKS)
#include <sys/mman.h>
#endif

namespace headrace {
namespace {

constexpr std::align_val_t alignment{64};
constexpr std::uint64_t between_sweeps = 1024; // calls of take

// Size classes are eighths of a power of two: at most 1/8 of a block is unused, and batches whose sizes differ
// a little (the last one of an epoch, ragged columns) still find each other's blocks.
std::size_t size_class(std::size_t size) {
    if (size <= 512) return 512;
    const auto shift = std::bit_width(size) - 4; // An eighth of the power of two below.
    return (((size - 1) >> shift) + 1) << shift;
}

// Large blocks have their own mappings, so that freeing one returns its memory to the system.
constexpr std::size_t mapped_from = std::size_t{64} << 10;

// The largest idle block to take in place of one of this size class. The batches of ragged columns, and the numbers of
// batches that are made together, take many sizes. With a block of exactly its class for each, a loader met new memory
// for a hundred epochs of 10 ms (2026-11-28, in a program outside the project). Small blocks are cheap to make.
std::size_t largest_instead_of(std::size_t capacity) {
    return capacity < mapped_from ? capacity : capacity + capacity / 2;
}

#if defined(HEADRACE_MAPPED_BLOCKS)
std::byte* map_memory(std::size_t size) {
    void* const found = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) throw std::bad_alloc();
    return static_cast<std::byte*>(found);
}

// Blocks that stay in use move to pages of 2 MiB, which copies fill by 5 to 15 % faster. New ones have small pages: a
// virtual machine that returns free memory to its host takes up to 4 ms for a large page that it has to ask for again,
// twice as long as for 512 small ones, so a first epoch of photographs took 0.5 s instead of 0.24 (2026-11-29).
constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t huge_from = 2 * huge_page;
constexpr std::uint32_t uses_before_huge = 64;

// A huge page must be aligned, so map more than needed and return the ends.
std::byte* map_aligned(std::size_t capacity) {
    std::byte* const found = map_memory(capacity + huge_page);
    const std::size_t before = (0 - reinterpret_cast<std::uintptr_t>(found)) % huge_page;
    if (before != 0) ::munmap(found, before);
    const std::size_t page = std::size_t{64} << 10; // at least the page size of every system
    const std::size_t kept = (capacity + page - 1) / page * page;
    if (kept < capacity + huge_page - before) ::munmap(found + before + kept, huge_page + capacity - before - kept);
    return found + before;
}
#endif

#if defined(HEADRACE_MAPPED_BLOCKS) && defined(MADV_HUGEPAGE)
// Whether the system lets programs have large pages: a request by MADV_COLLAPSE is granted even where they are
// forbidden.
bool has_huge_pages() {
    static const bool found = [] {
        std::string setting;
        std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), setting);
        return setting.find("always") != std::string::npos && setting.find("[never]") == std::string::npos;
    }();
    return found;
}
#endif

// Moves the next part of a block that has been used so often to a large page, one at a time: none makes anyone wait
// long.
void enlarge_page(std::byte* block, std::size_t capacity, std::uint32_t uses) {
#if defined(HEADRACE_MAPPED_BLOCKS) && defined(MADV_HUGEPAGE)
    constexpr int collapse = 25; // MADV_COLLAPSE, which the headers of older systems lack
    if (capacity < huge_from || uses < uses_before_huge) return;
    const std::size_t begin = (uses - uses_before_huge) * huge_page;
    if (begin + huge_page > capacity || !has_huge_pages()) return;
    ::madvise(block + begin, huge_page, MADV_HUGEPAGE); // by the system at a later time, if it cannot do it now
    ::madvise(block + begin, huge_page, collapse);
#else
    static_cast<void>(block);
    static_cast<void>(capacity);
    static_cast<void>(uses);
#endif
}

std::byte* new_block(std::size_t capacity) {
#if defined(HEADRACE_MAPPED_BLOCKS)
    if (capacity >= huge_from) return map_aligned(capacity);
    if (capacity >= mapped_from) return map_memory(capacity);
#endif
    return static_cast<std::byte*>(::operator new(capacity, alignment));
}

void free_block(std::byte* block, std::size_t capacity) noexcept {
#if defined(HEADRACE_MAPPED_BLOCKS)
    if (capacity >= mapped_from) {
        ::munmap(block, capacity);
        return;
    }
#endif
    static_cast<void>(capacity);
    ::operator delete(block, alignment);
}

} // namespace

Pool::Pool(std::size_t idle_limit, Clock::duration kept)
    : process_(process_id()),
      idle_limit_(idle_limit),
      kept_(kept) {}

Pool::~Pool() { clear(); }

Pool::Block& Pool::Block::operator=(Block&& other) noexcept {
    if (this != &other) {
        std::swap(pool_, other.pool_);
        std::swap(data_, other.data_);
        std::swap(capacity_, other.capacity_);
        std::swap(uses_, other.uses_);
    }
    return *this;
}

Pool::Block::~Block() {
    if (data_ != nullptr) pool_->give_back(data_, capacity_, uses_ + 1);
}

Pool::Block Pool::take(std::size_t size) {
    const std::size_t capacity = size_class(size);
    const std::size_t most = largest_instead_of(capacity);
    Block recycled;
    std::uint32_t uses = 0;
    {
        const std::scoped_lock lock(mutex_);
        ++taken_;
        for (auto found = idle_.lower_bound(capacity); found != idle_.end() && found->first <= most; ++found) {
            auto& [found_capacity, idle] = *found;
            if (idle.blocks.empty()) continue;
            const UsedBlock block = idle.blocks.back();
            idle.blocks.pop_back();
            idle.least = std::min(idle.least, idle.blocks.size());
            idle_bytes_ -= found_capacity;
            used_bytes_ += found_capacity;
            ++recycled_;
            uses = block.uses;
            recycled = Block(shared_from_this(), block.data, found_capacity, uses);
            break;
        }
        if (recycled.data() == nullptr) used_bytes_ += capacity;
    }
    if (recycled.data() != nullptr) {
        enlarge_page(recycled.data(), recycled.capacity(), uses);
        return recycled;
    }
    try {
        return {shared_from_this(), new_block(capacity), capacity};
    } catch (...) {
        const std::scoped_lock lock(mutex_);
        used_bytes_ -= capacity;
        throw;
    }
}

void Pool::give_back(std::byte* data, std::size_t capacity, std::uint32_t uses) noexcept {
    if (process_ != process_id()) return free_block(data, capacity);
    std::vector<Unused> freed;
    {
        const std::scoped_lock lock(mutex_);
        used_bytes_ -= capacity;
        try {
            if (taken_ - looked_ >= between_sweeps) {
                looked_ = taken_;
                if (Clock::now() - swept_ >= kept_) freed = sweep();
            }
            if (idle_bytes_ + capacity <= idle_limit_) {
                idle_[capacity].blocks.push_back({data, uses});
                idle_bytes_ += capacity;
                data = nullptr;
            }
        } catch (const std::bad_alloc&) { // No memory to keep it: free it below.
        }
    }
    for (const auto& [block, size] : freed) free_block(block, size);
    if (data != nullptr) free_block(data, capacity);
}

// Removes the blocks not needed since the last sweep, for the caller to free.
std::vector<Pool::Unused> Pool::sweep() {
    std::size_t count = 0;
    for (const auto& [capacity, idle] : idle_) count += idle.least;
    std::vector<Unused> found;
    found.reserve(count);
    for (auto& [capacity, idle] : idle_) {
        const auto end = idle.blocks.begin() + static_cast<std::ptrdiff_t>(idle.least);
        for (auto block = idle.blocks.begin(); block != end; ++block) found.push_back({block->data, capacity});
        idle.blocks.erase(idle.blocks.begin(), end);
        idle_bytes_ -= capacity * idle.least;
        idle.least = idle.blocks.size();
    }
    swept_ = Clock::now();
    return found;
}

Pool::Stats Pool::stats() const {
    const std::scoped_lock lock(mutex_);
    return {idle_bytes_, used_bytes_, taken_, recycled_};
}

void Pool::set_idle_limit(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    idle_limit_ = bytes;
}

void Pool::clear() {
    const std::scoped_lock lock(mutex_);
    for (auto& [capacity, idle] : idle_)
        for (const UsedBlock& block : idle.blocks) free_block(block.data, capacity);
    idle_.clear();
    idle_bytes_ = 0;
}

} // namespace headrace
