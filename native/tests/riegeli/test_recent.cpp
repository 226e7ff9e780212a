#include "core/riegeli/recent.hpp"

#include "check.hpp"
#include "riegeli/files.hpp"

using namespace headrace;
using namespace headrace::riegeli;
using namespace headrace::testing;

namespace {

std::shared_ptr<Pool> pool() {
    static const auto made = std::make_shared<Pool>(std::size_t{1} << 20);
    return made;
}

std::shared_ptr<GroupedChunk> chunk_of(const std::string& text) {
    const std::vector<Bytes> records = {bytes_of(text)};
    return GroupedChunk::copy_of(pool(), records);
}

void the_least_recent_is_dropped_first() {
    const std::size_t each = chunk_of("a")->held_bytes() + 160;
    RecentChunks recent(3 * each);
    for (std::uint64_t number = 0; number < 3; ++number) recent.keep(number, chunk_of("a"));
    check(recent.size() == 3 && recent.held_bytes() == 3 * each);
    check(recent.find(0) != nullptr);
    recent.keep(7, chunk_of("b"));
    check(recent.size() == 3 && recent.held_bytes() == 3 * each);
    check(recent.find(1) == nullptr && recent.find(0) && recent.find(2) && recent.find(7));
    recent.drop(2);
    recent.drop(2);
    check(recent.size() == 2 && recent.held_bytes() == 2 * each);
    recent.keep(8, chunk_of(std::string(4 * each, 'x'))); // Too large to be kept.
    check(recent.size() == 0 && recent.held_bytes() == 0);
}

void a_chunk_that_was_taken_out_stays_valid() {
    RecentChunks recent(0);
    const auto chunk = chunk_of("text");
    recent.keep(0, chunk);
    check(recent.find(0) == nullptr && chunk->has(0));
}

void a_replaced_chunk_is_measured_again() {
    RecentChunks recent(std::size_t{1} << 20);
    recent.keep(5, chunk_of("a"));
    const std::size_t before = recent.held_bytes();
    recent.keep(5, chunk_of(std::string(5000, 'a')));
    check(recent.size() == 1 && recent.held_bytes() > before + 4000);
    recent.keep(5, chunk_of("a"));
    check(recent.held_bytes() == before);
}

void one_caller_at_a_time_extends_a_chunk() {
    RecentChunks recent(1000);
    const auto one = chunk_of("a"), other = chunk_of("b");
    check(recent.reserve(one.get()) && !recent.reserve(one.get()) && recent.reserve(other.get()));
    recent.release(one.get());
    check(recent.reserve(one.get()) && !recent.reserve(other.get()));
}

void parts_are_read_by_several_threads() {
    FileMaker maker;
    std::vector<GroupedPart> parts;
    std::vector<std::uint64_t> begins;
    for (int i = 0; i < 100; ++i)
        begins.push_back(maker.put_records({std::string(static_cast<std::size_t>(i), 'a'), std::to_string(i)}));
    maker.file[begins[50] + 3] ^= std::byte{1};
    for (const unsigned threads : {1U, 3U}) {
        for (const bool whole : {false, true}) {
            parts.clear();
            for (const std::uint64_t begin : begins) parts.push_back({maker.file, begin, 2, true, 1});
            open_parts(pool(), parts, UINT64_MAX, threads);
            reach_parts(parts, whole, threads);
            for (std::size_t i = 0; i < parts.size(); ++i) {
                check(parts[i].is_here == (i != 50));
                if (i != 50) check(parts[i].chunk->size(0) == i && parts[i].chunk->is_loaded() == whole);
            }
        }
    }
}

void passing_chunks_leave_only_copies() {
    FileMaker maker;
    const std::string text(3000, 'a');
    const std::vector<std::uint64_t> begins = {maker.put_records({text, "bc"}), maker.put_records({text, "de"}),
                                               maker.put_records({text, "fg"})};
    maker.file[begins[2] + 50] ^= std::byte{1};
    std::array<std::byte, 6> room{};
    std::vector<RecordCopy> copies;
    for (std::size_t i = 0; i < begins.size(); ++i) copies.push_back({1, room.data() + 2 * i});
    for (const unsigned threads : {1U, 3U}) {
        room.fill(std::byte{'.'});
        std::vector<GroupedPart> parts;
        for (const std::uint64_t begin : begins) parts.push_back({maker.file, begin, 2, true, 1});
        open_parts(pool(), parts, UINT64_MAX, threads);
        for (std::size_t i = 0; i < parts.size(); ++i) parts[i].copies = std::span(copies).subspan(i, 1);
        reach_parts(parts, false, threads);
        check(parts[0].is_here && parts[1].is_here && !parts[2].is_here);
        check(std::string(reinterpret_cast<const char*>(room.data()), room.size()) == "bcde..");
        check(!parts[0].chunk->is_loaded() && parts[0].chunk->held_bytes() < 1000);
    }
}

} // namespace

int main() {
    the_least_recent_is_dropped_first();
    a_chunk_that_was_taken_out_stays_valid();
    a_replaced_chunk_is_measured_again();
    one_caller_at_a_time_extends_a_chunk();
    parts_are_read_by_several_threads();
    passing_chunks_leave_only_copies();
}
