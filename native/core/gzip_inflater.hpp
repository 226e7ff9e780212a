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
    static constexpr std::size_t lane_count = deflate::most_lanes;

    /// `stretch` compressed bytes are inflated at a time by each lane.
    explicit GzipInflater(std::size_t stretch = default_stretch);

    /// How many compressed bytes it takes at once.
    [[nodiscard]] std::size_t window() const noexcept { return window_; }

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
    [[nodiscard]] std::uint64_t join(std::size_t count);
    bool refuse() noexcept;

    std::size_t stretch_, margin_, window_;
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
