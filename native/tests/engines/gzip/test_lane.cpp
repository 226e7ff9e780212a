#include "core/engines/gzip/lane.hpp"

#include <algorithm>
#include <string>

#include "base/cpus.hpp"
#include "check.hpp"
#include "samples.hpp"

using namespace headrace;
using namespace headrace::deflate;
using namespace headrace::testing;

namespace {

constexpr std::size_t header_bits = 80; // of the member below

std::vector<std::byte> content() {
    std::vector<std::byte> bytes(500);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(65 + (i * i + i / 7) % 41);
    return bytes;
}

// A stream of literals, in one to three lanes. With spare room after it, so that the fast loop handles most of it.
void test_literals(const Cpu& cpu) {
    auto file = from_hex(gzip_member_of_500);
    const std::size_t end = (file.size() - 8) * 8;
    file.resize(file.size() + 4000);
    for (std::size_t count = 1; count <= most_lanes; ++count) {
        std::vector<Lane> lanes;
        std::vector<Lane*> running;
        for (std::size_t i = 0; i < count; ++i) lanes.emplace_back(std::size_t{4000});
        for (Lane& lane : lanes) {
            lane.begin(file, header_bits, file.size() * 8);
            check(lane.state() == Lane::State::running && lane.start() == header_bits);
            running.push_back(&lane);
        }
        Lane::run(running, cpu);
        for (Lane& lane : lanes) {
            check(lane.state() == Lane::State::last && (lane.end() + 7) / 8 * 8 == end);
            check(lane.resolve({}));
            const std::vector<std::byte> wanted = content();
            check(std::equal(wanted.begin(), wanted.end(), lane.bytes().begin(), lane.bytes().end()));
            check(lane.last_bytes(0).size() == wanted.size());
        }
    }
}

// Fixed codes, with matches that reach back before the stretch.
void test_matches(const Cpu& cpu) {
    using namespace std::string_view_literals;
    // Three header bits, the literal "a", and matches of length 3 at distances 1 and 6.
    std::vector<std::byte> stream(16);
    std::size_t at = 0;
    const auto put = [&](unsigned value, unsigned count) {
        for (unsigned bit = 0; bit < count; ++bit, ++at)
            stream[at / 8] |= static_cast<std::byte>((value >> bit & 1) << (at % 8));
    };
    const auto put_code = [&](unsigned code, unsigned count) {
        for (unsigned bit = count; bit-- != 0;) put(code >> bit & 1, 1);
    };
    put(3, 3);                                 // the last block, fixed codes
    put_code(0x30 + 'a', 8);                   // a literal
    put_code(1, 7), put_code(0, 5);            // length 3, distance 1: aaa
    put_code(1, 7), put_code(4, 5), put(1, 1); // length 3, distance 6
    put_code(0, 7);                            // end of block
    stream.resize(at / 8 + 1);
    Lane lane(100);
    Lane* const running = &lane;
    lane.begin(stream, 0, stream.size() * 8);
    Lane::run({&running, 1}, cpu);
    check(lane.state() == Lane::State::last && lane.end() == at);
    const auto before = bytes_of("xyz"sv);
    check(!lane.resolve(before.first(1))); // It reaches two bytes back.
    check(lane.resolve(before));
    check(std::ranges::equal(lane.bytes(), bytes_of("aaaayza"sv)));
    check(std::ranges::equal(lane.last_bytes(3), bytes_of("xyzaaaayza"sv)));
}

void test_stored_and_invalid_blocks(const Cpu& cpu) {
    const auto run = [&](const char* digits, std::size_t room = 100, std::uint64_t until = 1000) {
        const auto stream = from_hex(digits);
        Lane lane(room);
        Lane* const running = &lane;
        lane.begin(stream, 0, until);
        Lane::run({&running, 1}, cpu);
        return lane.state();
    };
    check(run("01 0300fcff 616263") == Lane::State::last);
    check(run("00 0300fcff 616263 01 0000ffff") == Lane::State::last);
    check(run("00 0300fcff 616263 01 0000ffff", 100, 8) == Lane::State::boundary);
    check(run("01 0300fcff 616263", 2) == Lane::State::stuck); // no room
    check(run("01 0300fcff 6162") == Lane::State::stuck);      // cut off
    check(run("01 0300fdff 616263") == Lane::State::stuck);    // length mismatch
    check(run("07") == Lane::State::stuck);                    // invalid block type
    check(run("") == Lane::State::stuck);
    check(run("05 00") == Lane::State::stuck); // truncated codes
}

} // namespace

int main() {
    for (const Cpu& cpu : runnable_cpus()) {
        test_literals(cpu);
        test_matches(cpu);
        test_stored_and_invalid_blocks(cpu);
    }
}
