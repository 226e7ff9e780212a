#include "core/riegeli/transpose.hpp"

#include "check.hpp"
#include "samples.hpp"

using namespace headrace;
using namespace headrace::riegeli;
using namespace headrace::testing;

namespace {

constexpr std::uint64_t num_records = 5;
constexpr std::uint64_t decoded_size = 66;

std::vector<std::vector<std::byte>> expected() {
    return {from_hex("080512036162631d01020304213132333435363738"),
            from_hex("08ac0208ffffffffffffffffff012a06080712027879"),
            from_hex("33080934c03e01"),
            from_hex("ffff206e6f742061206d657373616765"),
            {}};
}

std::vector<std::vector<std::byte>> decode(Bytes data, std::uint64_t records, std::uint64_t size) {
    Transposed chunk(data);
    chunk.header().decoded = chunk.header().stored;
    chunk.parse_header();
    std::vector<std::byte> output(size);
    std::vector<Bytes> found;
    chunk.assemble(records, output, found);
    std::vector<std::vector<std::byte>> out;
    for (const Bytes record : found) out.emplace_back(record.begin(), record.end());
    return out;
}

void records_are_reassembled() { check(decode(from_hex(transposed_chunk), num_records, decoded_size) == expected()); }

void counts_must_fit() {
    const auto data = from_hex(transposed_chunk);
    for (const auto& [records, size] :
         {std::pair<std::uint64_t, std::uint64_t>{4, 66}, {6, 66}, {5, 65}, {5, 67}, {0, 0}})
        check(fault_of([&] { (void)decode(data, records, size); }).fault == Fault::structure);
}

// Without hashes: any bytes give a fault, or records of the right number and size.
void every_changed_byte_is_safe() {
    const auto data = from_hex(transposed_chunk);
    for (std::size_t i = 0; i < data.size(); ++i) {
        for (const int flip : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
            auto damaged = data;
            damaged[i] ^= static_cast<std::byte>(flip);
            try {
                std::size_t total = 0;
                const auto records = decode(damaged, num_records, decoded_size);
                for (const auto& record : records) total += record.size();
                check(records.size() == num_records && total == decoded_size);
            } catch (const FormatError&) { // a fault is fine
            }
        }
        static_cast<void>(fault_of([&] { (void)decode(Bytes(data).first(i), num_records, decoded_size); }));
    }
}

void implicit_loops_are_refused() {
    // No buckets, no buffers; one node that does nothing and continues to itself without a transition.
    check(fault_of([] { (void)decode(from_hex("00 06 00 00 01 00 01 00"), 0, 0); }).fault == Fault::structure);
    // The same, but a transition is needed: it stops, and the result is empty.
    check(decode(from_hex("00 06 00 00 01 00 00 00"), 0, 0).empty());
}

} // namespace

int main() {
    records_are_reassembled();
    counts_must_fit();
    every_changed_byte_is_safe();
    implicit_loops_are_refused();
}
