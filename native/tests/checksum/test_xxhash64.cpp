#include "core/checksum/xxhash64.hpp"

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

// Made with xxhash 4.1.0 (PyPI).
void matches_the_reference() {
    check(xxhash64({}, 0) == 0xef46db3751d8e999);
    check(xxhash64(bytes_of("a"), 0) == 0xd24ec4f1a98c6e5b);
    check(xxhash64(bytes_of("abc"), 0) == 0x44bc2cf5ad770999);
    check(xxhash64(bytes_of("abc"), UINT64_MAX) == 0x28306e589cc02176);
    check(xxhash64(bytes_of("Nobody inspects the spammish repetition"), 0) == 0xfbcea83c8a378bf1);
}

// The sum over every length from 0 to 299 of the hash with the length as the seed.
void matches_plain_code_for_every_length() {
    std::vector<std::byte> data(300);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 37 + (i >> 3));
    std::uint64_t sum = 0;
    for (std::size_t size = 0; size < data.size(); ++size) sum = sum * 31 + xxhash64(Bytes(data).first(size), size);
    check(sum == 0x9311a328973c59);
}

} // namespace

int main() {
    matches_the_reference();
    matches_plain_code_for_every_length();
}
