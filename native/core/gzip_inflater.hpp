#pragma once

#include <memory>
#include <vector>

#include "core/deflate_lane.hpp"

namespace penstock {

/// Inflates a GZIP file of bytes that hardly repeat (random numbers, pictures), several stretches of it side by side. For nothing else:
/// what it is not made for, and whatever is not sound, it refuses, and what it gave until then is right.
class GzipInflater {
  public:
    enum class State { going, done, refused };

    static constexpr std::size_t default_stretch = std::size_t{2} << 20;

    /// Up to `stretch` compressed bytes are inflated at a time by each lane.
    /// So many threads work on it at a time, if they are free, each with `deflate::most_lanes` lanes.
    explicit GzipInflater(std::size_t stretch = default_stretch, unsigned threads = 1);

    /// How many compressed bytes it takes at once: few at first, so that the first bytes come soon.
    [[nodiscard]] std::size_t window() const noexcept { return stretch_ * lanes_.size() + margin(); }
    /// How many it will ever take at once.
    [[nodiscard]] std::size_t most_window() const noexcept { return most_stretch_ * lanes_.size() + most_stretch_ / 4; }

    /// Goes on with `data`, the bytes behind those that were used up; `last` where the file ends with them. Returns how many are used up
    /// now.
    [[nodiscard]] std::size_t inflate(Bytes data, bool last);

    [[nodiscard]] State state() const noexcept { return state_; }
    /// What the last call inflated, until the next.
    [[nodiscard]] const std::vector<Bytes>& parts() const noexcept { return parts_; }

  private:
    enum class Next { header, blocks, trailer };

    [[nodiscard]] bool take_header(Bytes data, std::size_t& at);
    [[nodiscard]] bool take_blocks(Bytes data, std::size_t& at);
    [[nodiscard]] bool take_trailer(Bytes data, std::size_t& at);
    [[nodiscard]] std::size_t begin_lanes(Bytes data);
    void run_lanes(std::size_t count);
    [[nodiscard]] std::uint64_t join(std::size_t count);
    bool refuse() noexcept;

    [[nodiscard]] std::size_t margin() const noexcept { return stretch_ / 4; }

    std::size_t most_stretch_, stretch_;
    std::vector<std::unique_ptr<deflate::Lane>> lanes_;
    std::unique_ptr<deflate::Codes> found_codes_;
    std::vector<Bytes> parts_;
    std::vector<std::byte> before_; // the last bytes of this member
    State state_ = State::going;
    Next next_ = Next::header;
    unsigned bit_ = 0; // of the next byte
    std::uint32_t crc_ = 0, size_ = 0; // of this member
    std::size_t windows_ = 0, short_windows_ = 0;
    bool any_member_ = false, judged_ = false;
};

} // namespace penstock
