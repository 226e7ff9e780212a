#include "core/gzip_inflater.hpp"

#include <algorithm>
#include <array>
#include <system_error>
#include <thread>

#include "core/crc32.hpp"

namespace penstock {
namespace {

using deflate::Lane;

constexpr std::size_t fixed_header = 10;
constexpr std::size_t trailer_bytes = 8;
constexpr unsigned extra_flag = 4, name_flag = 8, comment_flag = 16;
constexpr unsigned known_flags = 1 | extra_flag | name_flag | comment_flag; // of the checksum of the header, others take care
constexpr double wanted_literals = 0.97; // of all symbols; where more are matches, one lane with wider tables is faster
constexpr std::size_t most_searched = std::size_t{128} << 10; // bytes, for the beginning of a block
constexpr std::size_t patience = 2;
constexpr std::size_t first_stretch = std::size_t{256} << 10;

// Where the header that begins at `data` ends: 0 where it goes on behind it.
std::size_t header_end(Bytes data) {
    if (data.size() < fixed_header) return 0;
    const auto flags = std::to_integer<unsigned>(data[3]);
    std::size_t at = fixed_header;
    if ((flags & extra_flag) != 0) {
        if (data.size() - at < 2) return 0;
        at += 2 + std::size_t{load_le<std::uint16_t>(data.data() + at)};
        if (at > data.size()) return 0;
    }
    for (const unsigned flag : {name_flag, comment_flag}) {
        if ((flags & flag) == 0) continue;
        const auto zero = std::find(data.begin() + static_cast<std::ptrdiff_t>(at), data.end(), std::byte{0});
        if (zero == data.end()) return 0;
        at = static_cast<std::size_t>(zero - data.begin()) + 1;
    }
    return at;
}

} // namespace

GzipInflater::GzipInflater(std::size_t stretch, unsigned threads)
    : most_stretch_(stretch), stretch_(std::min(stretch, first_stretch)), found_codes_(new deflate::Codes) {
    for (std::size_t i = 0; i < deflate::most_lanes * std::max(threads, 1U); ++i) lanes_.push_back(std::make_unique<Lane>(2 * stretch));
}

std::size_t GzipInflater::inflate(Bytes data, bool last) {
    std::size_t at = 0;
    parts_.clear();
    while (state_ == State::going) {
        const Bytes left = data.subspan(at);
        if (next_ == Next::header && any_member_ && left.empty()) {
            if (last) state_ = State::done;
            break;
        }
        if (next_ == Next::blocks && !parts_.empty()) break; // they lie where the next ones will
        const std::size_t before = at;
        const Next step = next_;
        const bool went_on = next_ == Next::header ? take_header(left, at) : next_ == Next::blocks ? take_blocks(left, at) : take_trailer(left, at);
        if (went_on && (at != before || next_ != step || !parts_.empty())) continue;
        if (state_ == State::going && parts_.empty() && (last || (before == 0 && data.size() >= window()))) refuse();
        break;
    }
    return at;
}

bool GzipInflater::refuse() noexcept {
    state_ = State::refused;
    return false;
}

bool GzipInflater::take_header(Bytes data, std::size_t& at) {
    if (data.size() < fixed_header) return false;
    if (data[0] != std::byte{0x1F} || data[1] != std::byte{0x8B} || data[2] != std::byte{8} || (std::to_integer<unsigned>(data[3]) & ~known_flags) != 0) return refuse();
    const std::size_t end = header_end(data);
    if (end == 0) return false;
    at += end;
    before_.clear();
    crc_ = size_ = bit_ = 0;
    next_ = Next::blocks;
    return true;
}

bool GzipInflater::take_trailer(Bytes data, std::size_t& at) {
    if (data.size() < trailer_bytes) return false;
    if (load_le<std::uint32_t>(data.data()) != crc_ || load_le<std::uint32_t>(data.data() + 4) != size_) return refuse();
    at += trailer_bytes;
    any_member_ = true;
    next_ = Next::header;
    return true;
}

std::size_t GzipInflater::begin_lanes(Bytes data) {
    const std::uint64_t end = std::uint64_t{data.size()} * 8;
    std::vector<std::uint64_t> starts(lanes_.size() + 1);
    starts[0] = bit_;
    std::size_t count = 1;
    for (; count < lanes_.size(); ++count) {
        const std::uint64_t from = std::uint64_t{count * stretch_} * 8;
        const std::uint64_t until = std::min(from + std::uint64_t{std::min(stretch_, most_searched)} * 8, end);
        if (from >= until) break;
        starts[count] = deflate::find_block(data, from, until, *found_codes_);
        if (starts[count] == until) break;
    }
    starts[count] = std::uint64_t{count * stretch_} * 8;
    for (std::size_t i = 0; i < count; ++i) lanes_[i]->begin(data, starts[i], starts[i + 1]);
    return count;
}

bool GzipInflater::take_blocks(Bytes data, std::size_t& at) {
    const unsigned kind = data.empty() ? 0 : static_cast<unsigned>(deflate::bits_at(data, bit_ + 1U)) & 3;
    if (!judged_ && kind != 2) return data.empty() ? false : refuse(); // stored bytes are nowhere faster than in one piece
    const std::size_t count = begin_lanes(data);
    const Lane& first = *lanes_.front();
    if (!judged_ && first.state() == Lane::State::running && first.literal_share() < wanted_literals) return refuse();
    run_lanes(count);
    const std::uint64_t end = join(count);
    if (state_ == State::refused) return false;
    judged_ |= !parts_.empty();
    ++windows_;
    short_windows_ += end / 8 < std::min(data.size(), window()) / 2 ? 1U : 0U;
    stretch_ = std::min(most_stretch_, 2 * stretch_);
    if (short_windows_ > patience + windows_ / 8) return refuse();
    bit_ = end & 7;
    at += static_cast<std::size_t>(end >> 3);
    if (next_ == Next::trailer && bit_ != 0) ++at;
    return true;
}

// Milliseconds of work for each thread, which is worth beginning one.
void GzipInflater::run_lanes(std::size_t count) {
    constexpr std::size_t together = deflate::most_lanes;
    const auto run = [&](std::size_t begin) {
        std::array<Lane*, together> lanes{};
        const std::size_t size = std::min(together, count - begin);
        for (std::size_t i = 0; i < size; ++i) lanes[i] = lanes_[begin + i].get();
        Lane::run({lanes.data(), size});
    };
    std::vector<std::thread> others;
    for (std::size_t begin = together; begin < count; begin += together) {
        try {
            others.emplace_back(run, begin);
        } catch (const std::system_error&) { // no more threads are to be had
            run(begin);
        }
    }
    run(0);
    for (std::thread& other : others) other.join();
}

// The lanes as far as each begins where the one before it ended; returns the bit where the last of those ends.
std::uint64_t GzipInflater::join(std::size_t count) {
    std::uint64_t end = bit_;
    Bytes before = before_;
    for (std::size_t i = 0; i < count && lanes_[i]->start() == end; ++i) {
        Lane& lane = *lanes_[i];
        if (!lane.resolve(before)) {
            refuse();
            return end;
        }
        if (const Bytes bytes = lane.bytes(); !bytes.empty()) {
            crc_ = crc32(bytes, crc_);
            size_ += static_cast<std::uint32_t>(bytes.size());
            parts_.push_back(bytes);
        }
        before = lane.last_bytes(before.size());
        end = lane.end();
        if (lane.state() == Lane::State::last) {
            next_ = Next::trailer;
            break;
        }
    }
    before_.assign(before.begin(), before.end());
    return end;
}

} // namespace penstock
