#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/engines/gzip/lane.hpp"

namespace headrace::deflate {

/// Lanes that are used again. What one has inflated lies there as long as somebody holds it, in whatever thread and
/// however long; then it comes back by itself.
class LaneStock : public std::enable_shared_from_this<LaneStock> {
  public:
    /// Lanes with room for so many bytes, of which so many may lie idle.
    [[nodiscard]] static std::shared_ptr<LaneStock> make(std::size_t room, std::size_t most_idle);

    [[nodiscard]] std::shared_ptr<Lane> take();

  private:
    LaneStock(std::size_t room, std::size_t most_idle);
    void take_back(std::unique_ptr<Lane> lane) noexcept;

    std::size_t room_, most_idle_;
    int process_;
    std::mutex mutex_; // for `idle_`
    std::vector<std::unique_ptr<Lane>> idle_;
};

} // namespace headrace::deflate
