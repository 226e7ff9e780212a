#include "core/zstd_stored.hpp"

#include "check.hpp"

using namespace penstock;
using namespace penstock::testing;

namespace {

std::vector<std::byte> unpacked(const std::vector<std::byte>& frame, std::size_t size) {
    std::vector<std::byte> out(size);
    check(unpack_stored_zstd(frame, out));
    return out;
}

void frames_are_those_of_the_compressor() {
    std::vector<std::byte> frame(stored_zstd_size(2));
    const auto content = from_hex("e618"); // the size of a record of 3,174 bytes
    check(write_stored_zstd(frame.data(), content) == frame.data() + frame.size());
    check(frame == from_hex("28b52ffd 20 02 110000 e618")); // as array_record 0.8.6 writes it
    check(zstd_declared_size(frame) == 2);
    const auto view = zstd_raw_content(frame, 2);
    check(view && view->data() == frame.data() + 9 && view->size() == 2);
    check(unpacked(frame, 2) == content);
}

void blocks_and_runs() {
    // A window descriptor and no size; a raw block "ab", a run of five "c", an empty last block.
    const auto frame = from_hex("28b52ffd 00 50 100000 6162 2a0000 63 010000");
    check(!zstd_declared_size(frame) && !zstd_raw_content(frame, 7));
    const auto out = unpacked(frame, 7);
    check(std::equal(out.begin(), out.end(), bytes_of("abccccc").begin()));
    std::vector<std::byte> other(6);
    check(!unpack_stored_zstd(frame, other));
    other.resize(8);
    check(!unpack_stored_zstd(frame, other));
    check(unpacked(from_hex("28b52ffd 20 00 010000"), 0).empty());
}

void sizes_of_all_widths() {
    check(zstd_declared_size(from_hex("28b52ffd 60 660b")) == 0xb66 + 256);
    check(zstd_declared_size(from_hex("28b52ffd a0 70110100")) == 70000);
    check(zstd_declared_size(from_hex("28b52ffd e0 7011010000000000")) == 70000);
}

void everything_else_is_left_to_the_library() {
    std::vector<std::byte> out(2);
    for (const char* frame : {"", "28b52ffd", "29b52ffd 20 02 110000 e618", "28b52ffd 24 02 110000 e618 00000000", "28b52ffd 21 01 02 110000 e618",
                              "28b52ffd 28 02 110000 e618", "28b52ffd 20 03 110000 e618", "28b52ffd 20 02 110000 e6", "28b52ffd 20 02 150000 e618",
                              "28b52ffd 20 02 170000 e618", "28b52ffd 20 02 110000 e618 00", "28b52ffd 20 02 100000 e618"})
        check(!unpack_stored_zstd(from_hex(frame), out) && !zstd_raw_content(from_hex(frame), 2), frame);
}

} // namespace

int main() {
    frames_are_those_of_the_compressor();
    blocks_and_runs();
    sizes_of_all_widths();
    everything_else_is_left_to_the_library();
}
