#include "core/engines/zstd/stored.hpp"

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

void frames_match_the_compressor() {
    std::vector<std::byte> frame(stored_zstd_size(2));
    const auto content = from_hex("e618"); // the size of a record of 3,174 bytes, as a varint
    check(write_stored_zstd(frame.data(), content) == frame.data() + frame.size());
    check(frame == from_hex("28b52ffd 20 02 110000 e618")); // as array_record 0.8.6 writes it
    check(zstd_declared_size(frame) == 2);
    const auto view = zstd_raw_content(frame, 2);
    check(view && view->data() == frame.data() + 9 && view->size() == 2);
}

void test_sizes_of_every_width() {
    check(!zstd_declared_size(from_hex("28b52ffd 00 50 010000")));
    check(zstd_declared_size(from_hex("28b52ffd 60 660b")) == 0xb66 + 256);
    check(zstd_declared_size(from_hex("28b52ffd a0 70110100")) == 70000);
    check(zstd_declared_size(from_hex("28b52ffd e0 7011010000000000")) == 70000);
}

void other_frames_give_no_view() {
    for (const char* frame :
         {"", "28b52ffd", "29b52ffd 20 02 110000 e618", "28b52ffd 24 02 110000 e618 00000000",
          "28b52ffd 21 01 02 110000 e618", "28b52ffd 28 02 110000 e618", "28b52ffd 20 03 110000 e618",
          "28b52ffd 20 02 110000 e6", "28b52ffd 20 02 150000 e618", "28b52ffd 20 02 170000 e618",
          "28b52ffd 20 02 110000 e618 00", "28b52ffd 20 02 100000 e618"})
        check(!zstd_raw_content(from_hex(frame), 2), frame);
}

} // namespace

int main() {
    frames_match_the_compressor();
    test_sizes_of_every_width();
    other_frames_give_no_view();
}
