#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/engines/gzip/lane.hpp"

namespace headrace::deflate {

/// Keeps lanes for reuse. A lane returns to the pool when its last holder, in any thread, releases it.
class LanePool : public std::enable_shared_from_this<LanePool> {
  public:
    /// Makes lanes with room for `room` bytes, and keeps up to `most_idle` of them.
    [[nodiscard]] static std::shared_ptr<LanePool> make(std::size_t room, std::size_t most_idle);

    [[nodiscard]] std::shared_ptr<Lane> take();

  private:
    LanePool(std::size_t room, std::size_t most_idle);
    void take_back(std::unique_ptr<Lane> lane) noexcept;

    std::size_t room_, most_idle_;
    int process_;
    std::mutex mutex_; // for `idle_`
    std::vector<std::unique_ptr<Lane>> idle_;
};

} // namespace headrace::deflate
