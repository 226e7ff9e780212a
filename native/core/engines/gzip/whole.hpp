#pragma once

#include "core/engines/gzip/codes.hpp"

namespace headrace::deflate {

/// Inflates whole GZIP members of known size, any number of them. Made for pages of columns, of some kilobytes to
/// megabytes: the output is also the window, so nothing else is allocated.
class WholeInflater {
  public:
    /// Fills `out` exactly. False, with anything in `out`, for everything else than one intact member without optional
    /// fields in its header: more members, bytes behind it, zlib, every damage. `member` may change meanwhile.
    [[nodiscard]] bool inflate(Bytes member, std::span<std::byte> out) noexcept;

  private:
    enum class Step { more, end, wrong };

    [[nodiscard]] bool inflate_block() noexcept;
    [[nodiscard]] bool copy_stored() noexcept;
    [[nodiscard]] Step run_quickly() noexcept;
    [[nodiscard]] Step step() noexcept;
    [[nodiscard]] std::size_t room() const noexcept { return out_.size() - size_; }

    Codes codes_;
    Bytes stream_;
    std::uint64_t at_ = 0; // bit
    std::span<std::byte> out_;
    std::size_t size_ = 0; // bytes of `out_` that are written
    bool is_last_ = false;
};

} // namespace headrace::deflate
