#include "core/base/pool.hpp"

#include <atomic>
#include <cstring>
#include <fstream>
#include <span>
#include <thread>

#if defined(__linux__)
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

void freed_blocks_are_reused() {
    const auto pool = std::make_shared<Pool>(1 << 20);
    std::byte* first = nullptr;
    {
        const Pool::Block block = pool->take(100'000);
        first = block.data();
        check(block.capacity() >= 100'000 && reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
        check(pool->stats().used_bytes == block.capacity() && pool->stats().idle_bytes == 0);
    }
    const Pool::Block again = pool->take(99'000); // of the same size class
    check(again.data() == first && pool->stats().recycled == 1);
    check(pool->take(0).data() != nullptr);
}

// The smallest block that is large enough, but none that is much larger.
void larger_blocks_are_reused() {
    const auto pool = std::make_shared<Pool>(1 << 24);
    std::byte *near = nullptr, *far = nullptr;
    std::size_t capacity = 0;
    {
        const Pool::Block a = pool->take(1'400'000), b = pool->take(1'200'000), c = pool->take(3'000'000);
        near = b.data(), far = c.data(), capacity = b.capacity();
    }
    const std::size_t idle = pool->stats().idle_bytes;
    {
        const Pool::Block block = pool->take(1'000'000);
        check(block.data() == near && block.capacity() == capacity);
        check(pool->stats().used_bytes == capacity && pool->stats().idle_bytes == idle - capacity);
        std::memset(block.data(), 1, block.capacity());
    }
    check(pool->stats().used_bytes == 0 && pool->stats().idle_bytes == idle);
    const Pool::Block other = pool->take(1'900'000);
    check(other.data() != far && other.capacity() < 2'200'000 && pool->stats().recycled == 1);
    { const Pool::Block a = pool->take(30'000); }
    const Pool::Block small = pool->take(24'000);
    check(small.capacity() < 30'000);
}

void idle_memory_is_bounded() {
    const auto pool = std::make_shared<Pool>(10'000);
    { const Pool::Block a = pool->take(8'000), b = pool->take(8'000); }
    check(pool->stats().idle_bytes <= 10'000 && pool->stats().idle_bytes > 0 && pool->stats().used_bytes == 0);
    pool->clear();
    check(pool->stats().idle_bytes == 0);
    pool->set_idle_limit(20'000);
    { const Pool::Block a = pool->take(8'000), b = pool->take(8'000); }
    check(pool->stats().idle_bytes > 10'000);
    pool->set_idle_limit(0);
    { const Pool::Block a = pool->take(9'000); }
    check(pool->stats().idle_bytes <= 20'000);
}

// The last byte can be written, and memory is returned, whatever the size.
void large_blocks_are_reused() {
    const auto pool = std::make_shared<Pool>(0);
    for (const std::size_t size :
         {std::size_t{65'536}, std::size_t{4} << 20, (std::size_t{4} << 20) + 1, std::size_t{9'000'001}}) {
        const Pool::Block block = pool->take(size);
        check(block.capacity() >= size && reinterpret_cast<std::uintptr_t>(block.data()) % 64 == 0);
        std::memset(block.data(), 1, block.capacity());
    }
    check(pool->stats().used_bytes == 0 && pool->stats().idle_bytes == 0);
}

// Three blocks of one size and one of another are needed once. After that, only one of the first size is.
void unused_blocks_are_freed() {
    const auto pool = std::make_shared<Pool>(1 << 30);
    std::size_t capacity = 0;
    {
        const Pool::Block a = pool->take(100'000), b = pool->take(100'000), c = pool->take(100'000),
                          other = pool->take(200'000);
        capacity = a.capacity();
    }
    check(pool->stats().idle_bytes >= 500'000);
    for (int i = 0; i < 3000; ++i) check(pool->take(100'000).capacity() == capacity);
    check(pool->stats().idle_bytes == capacity && pool->stats().used_bytes == 0);
    check(pool->stats().recycled == 3000);
    // Two blocks in alternation are both kept.
    for (int i = 0; i < 3000; ++i) {
        const Pool::Block a = pool->take(100'000), b = pool->take(300'000);
    }
    check(pool->stats().taken - pool->stats().recycled == 5);
}

void a_block_outlives_its_pool() {
    auto pool = std::make_shared<Pool>(1 << 20);
    Pool::Block block = pool->take(1000);
    pool.reset();
    std::memset(block.data(), 1, 1000);
    Pool::Block moved = std::move(block);
    check(moved.data() != nullptr);
}

void many_threads_take_and_free() {
    const auto pool = std::make_shared<Pool>(1 << 20);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t)
        threads.emplace_back([&pool, t] {
            for (std::size_t i = 0; i < 2000; ++i) {
                const Pool::Block block = pool->take(64 + i % 5000);
                std::memset(block.data(), static_cast<int>(t), 64 + i % 5000);
                check(block.data()[0] == static_cast<std::byte>(t) &&
                      block.data()[63 + i % 5000] == static_cast<std::byte>(t));
            }
        });
    for (std::thread& thread : threads) thread.join();
    check(pool->stats().used_bytes == 0 && pool->stats().taken == 8000);
}

#if defined(__linux__) && !defined(__SANITIZE_THREAD__)
// Whatever lock a thread of the parent held during the fork.
void blocks_of_the_parent_are_freed_in_a_child() {
    const auto pool = std::make_shared<Pool>(1 << 20);
    std::atomic<bool> stops{false};
    std::thread other([&] {
        while (!stops) {
            const Pool::Block a = pool->take(1000), b = pool->take(2000);
        }
    });
    std::vector<Pool::Block> inherited;
    for (int i = 0; i < 200; ++i) inherited.push_back(pool->take(i % 2 == 0 ? 1000 : 100'000));
    for (int i = 0; i < 200; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(60);
            inherited.clear();
            _exit(0);
        }
        int status = -1;
        check(waitpid(child, &status, 0) == child && status == 0);
    }
    stops = true;
    other.join();
}
#endif

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
std::size_t resident_bytes() {
    std::size_t whole = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> whole >> resident;
    return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Even if every other block stays in use.
void freed_memory_returns_to_the_system() {
    const auto pool = std::make_shared<Pool>(1 << 30);
    constexpr std::size_t size = 200'000;
    std::vector<Pool::Block> kept, freed;
    for (int i = 0; i < 100; ++i)
        for (auto* blocks : {&kept, &freed}) {
            blocks->push_back(pool->take(size));
            std::memset(blocks->back().data(), 1, size);
        }
    const std::size_t before = resident_bytes();
    freed.clear();
    pool->clear();
    check(resident_bytes() + 90 * size < before);
}
#else
void freed_memory_returns_to_the_system() {}
#endif

// Blocks that stay in use move to larger pages, part by part.
void a_block_keeps_its_bytes_in_larger_pages() {
    const auto pool = std::make_shared<Pool>(1 << 30);
    constexpr std::size_t size = (std::size_t{9} << 20) + 100;
    const std::byte* first = nullptr;
    for (int use = 0; use < 100; ++use) {
        const Pool::Block block = pool->take(size);
        const std::span<std::byte> bytes{block.data(), block.capacity()};
        if (use == 0)
            for (std::size_t at = 0; at < bytes.size(); ++at) bytes[at] = static_cast<std::byte>(at % 251);
        if (use == 0) first = block.data();
        check(block.data() == first);
        std::size_t wrong = 0;
        for (auto at = static_cast<std::size_t>(use); at < bytes.size(); at += 4096)
            wrong += bytes[at] != static_cast<std::byte>(at % 251);
        check(wrong == 0);
    }
}

} // namespace

int main() {
    freed_memory_returns_to_the_system();
    freed_blocks_are_reused();
    larger_blocks_are_reused();
    idle_memory_is_bounded();
    large_blocks_are_reused();
    a_block_keeps_its_bytes_in_larger_pages();
    unused_blocks_are_freed();
    a_block_outlives_its_pool();
    many_threads_take_and_free();
#if defined(__linux__) && !defined(__SANITIZE_THREAD__)
    blocks_of_the_parent_are_freed_in_a_child();
#endif
}
