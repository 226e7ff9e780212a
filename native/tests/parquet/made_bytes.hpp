#pragma once

#include "check.hpp"

/// Bytes of Parquet files, made by hand.
namespace headrace::testing {

/// Bytes with `slack` readable ones behind them, and no more than those.
class WithSlack {
  public:
    WithSlack(const std::vector<std::byte>& bytes, std::size_t slack) : held_(bytes), size_(bytes.size()) {
        held_.resize(size_ + slack, std::byte{0xFF});
    }
    [[nodiscard]] Bytes bytes() const { return {held_.data(), size_}; }

  private:
    std::vector<std::byte> held_;
    std::size_t size_;
};

inline void put_varint(std::vector<std::byte>& to, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) to.push_back(static_cast<std::byte>(value | 0x80));
    to.push_back(static_cast<std::byte>(value));
}

} // namespace headrace::testing
