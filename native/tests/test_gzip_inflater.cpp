#include "core/gzip_inflater.hpp"

#include <algorithm>

#include "check.hpp"
#include "core/crc32.hpp"

using namespace penstock;
using namespace penstock::testing;

namespace {

struct Found {
    std::vector<std::byte> bytes;
    GzipInflater::State state;
    std::size_t used;
};

Found inflate(Bytes file, std::size_t stretch) {
    GzipInflater inflater(stretch);
    Found found{};
    while (inflater.state() == GzipInflater::State::going) {
        const Bytes left = file.subspan(found.used, std::min(inflater.window(), file.size() - found.used));
        found.used += inflater.inflate(left, found.used + left.size() == file.size());
        for (const Bytes part : inflater.parts()) found.bytes.insert(found.bytes.end(), part.begin(), part.end());
    }
    found.state = inflater.state();
    return found;
}

// A file of one stored block.
std::vector<std::byte> stored(Bytes content) {
    auto file = from_hex("1f8b0800 00000000 0003 01");
    const auto add = [&file](std::uint32_t value, unsigned bytes) {
        for (unsigned i = 0; i < bytes; ++i) file.push_back(static_cast<std::byte>(value >> (8 * i)));
    };
    const auto size = static_cast<std::uint32_t>(content.size());
    add(size, 2);
    add(~size, 2);
    file.insert(file.end(), content.begin(), content.end());
    add(crc32(content), 4);
    add(size, 4);
    return file;
}

void sums_agree() {
    std::vector<std::byte> bytes(1000);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
    for (std::size_t begin = 0; begin < 20; ++begin)
        for (std::size_t end = begin; end <= bytes.size(); end += 13) {
            const Bytes part = Bytes(bytes).subspan(begin, end - begin);
            check(crc32(part, 9) == crc32_by_tables(part, 9));
        }
    check(crc32(bytes_of("123456789")) == 0xCBF43926);
}

void stored_blocks_and_members() {
    const std::vector<std::byte> content(5000, std::byte{7});
    auto file = stored(content);
    check(inflate(file, 8192).state == GzipInflater::State::done && inflate(file, 8192).bytes == content);
    const auto once = file;
    file.insert(file.end(), once.begin(), once.end());
    check(inflate(file, 8192).state == GzipInflater::State::done && inflate(file, 8192).bytes.size() == 2 * content.size());
    check(inflate(file, 1024).state == GzipInflater::State::refused); // larger than what it takes at once
}

void damage_is_refused() {
    const auto file = stored(bytes_of("some bytes"));
    for (std::size_t size = 0; size < file.size(); ++size) check(inflate(Bytes(file).first(size), 4096).state == GzipInflater::State::refused);
    for (const std::size_t at : {std::size_t{0}, std::size_t{3}, std::size_t{11}, std::size_t{17}, file.size() - 1, file.size() - 8}) {
        auto broken = file;
        broken[at] ^= std::byte{0x40};
        check(inflate(broken, 4096).state == GzipInflater::State::refused);
    }
}

void codes_are_those_of_the_standard() {
    // RFC 1951, 3.2.2: lengths 3, 3, 3, 3, 3, 2, 4, 4 have the codes 010, 011, 100, 101, 110, 00, 1110, 1111.
    const std::array<std::uint8_t, 8> lengths = {3, 3, 3, 3, 3, 2, 4, 4};
    deflate::Canonical codes;
    check(codes.open(lengths.data(), 8) == deflate::Canonical::Kind::complete);
    check(codes.find(0b010).value == 0 && codes.find(0b001).value == 3 - 1 && codes.find(0b00).value == 5);
    check(codes.find(0b0111).value == 6 && codes.find(0b1111).value == 7 && codes.find(0b1111).bits == 4);
    check(codes.open(lengths.data(), 7) == deflate::Canonical::Kind::wrong);
    const std::array<std::uint8_t, 3> many = {1, 1, 1}, one = {0, 1, 0}, none = {0, 0, 0};
    check(codes.open(many.data(), 3) == deflate::Canonical::Kind::wrong);
    check(codes.open(one.data(), 3) == deflate::Canonical::Kind::single && codes.find(1).bits == 0);
    check(codes.open(none.data(), 3) == deflate::Canonical::Kind::empty && codes.find(0).bits == 0);
}

} // namespace

int main() {
    sums_agree();
    stored_blocks_and_members();
    damage_is_refused();
    codes_are_those_of_the_standard();
}
