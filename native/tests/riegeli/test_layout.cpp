#include "core/riegeli/layout.hpp"

#include "check.hpp"

using namespace headrace;
using namespace headrace::riegeli;
using namespace headrace::testing;

namespace {

// Counts byte by byte instead of using the formula.
std::uint64_t end_step_by_step(std::uint64_t position, std::uint64_t size) {
    while (size-- != 0) position = behind_block_header(position) + 1;
    return position;
}

void ends_match_a_byte_by_byte_scan() {
    for (const std::uint64_t begin : {std::uint64_t{0}, std::uint64_t{64}, 2 * block_size}) {
        for (std::uint64_t shift = 0; shift < 90; ++shift) {
            const std::uint64_t position = begin + (shift < 45 ? 0 : block_size - 90) + shift;
            if (!may_begin_chunk(position)) continue;
            for (const std::uint64_t size :
                 {0, 1, 23, 24, 25, 40, 64, 65511, 65512, 65513, 65600, 131024, 131025, 200000})
                check(end_with_headers(position, size) == end_step_by_step(position, size));
        }
    }
}

void chunks_begin_on_boundaries_or_after_headers() {
    check(may_begin_chunk(0) && may_begin_chunk(block_size) && may_begin_chunk(25) && may_begin_chunk(block_size - 1));
    for (std::uint64_t position = 1; position <= 24; ++position) {
        check(!may_begin_chunk(position));
        check(next_chunk_begin(position) == 25 && next_chunk_begin(block_size + position) == block_size + 25);
    }
    check(next_chunk_begin(25) == 25 && next_chunk_begin(0) == 0);
    check(left_in_block(0) == 0 && left_in_block(1) == block_size - 1 && next_boundary(1) == block_size);
}

void a_chunk_has_a_position_for_every_record() {
    check(chunk_end(64, 34, 1) == 138);
    check(chunk_end(64, 34, 100'000) == 100'064);                     // as the reference writer does
    check(chunk_end(64, 34, block_size - 64 + 3) == block_size + 25); // not inside a block header
}

void test_block_headers() {
    std::vector<std::byte> file(block_size + 100);
    write_block_header(file.data() + block_size, {123, 456});
    const auto header = read_block_header(file, block_size);
    check(header && header->previous_chunk == 123 && header->next_chunk == 456);
    check(!read_block_header(file, 0) && !read_block_header(file, 2 * block_size));
    check(!read_block_header(Bytes(file).first(block_size + 23), block_size));
    check(bad_block_headers(file) == std::vector<std::int64_t>{0});
    file[block_size + 20] ^= std::byte{1};
    check(!read_block_header(file, block_size));
}

void copies_omit_headers() {
    std::vector<std::byte> file(3 * block_size);
    for (std::size_t i = 0; i < file.size(); ++i)
        file[i] = static_cast<std::byte>(i % block_size < block_header_size ? 255 : i % 251);
    std::vector<std::byte> copy(2 * usable_block_size);
    copy_without_headers(file, block_size - 10, copy.size(), copy.data());
    std::uint64_t position = block_size - 10;
    for (const std::byte byte : copy) {
        position = behind_block_header(position);
        check(byte == file[position++]);
    }
    check(is_interrupted(block_size - 10, 11) && !is_interrupted(block_size - 10, 10) && !is_interrupted(30, 0));
}

} // namespace

int main() {
    ends_match_a_byte_by_byte_scan();
    chunks_begin_on_boundaries_or_after_headers();
    a_chunk_has_a_position_for_every_record();
    test_block_headers();
    copies_omit_headers();
}
