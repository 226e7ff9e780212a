#include "core/engines/gzip/lane_pool.hpp"

#include "core/base/thread_team.hpp"

namespace headrace::deflate {

std::shared_ptr<LanePool> LanePool::make(std::size_t room, std::size_t most_idle) {
    return std::shared_ptr<LanePool>(new LanePool(room, most_idle));
}

LanePool::LanePool(std::size_t room, std::size_t most_idle)
    : room_(room),
      most_idle_(most_idle),
      process_(process_id()) {
    idle_.reserve(most_idle);
}

std::shared_ptr<Lane> LanePool::take() {
    // In a forked child, a thread of the parent may have held the lock.
    if (process_ != process_id()) return std::make_shared<Lane>(room_);
    std::unique_ptr<Lane> lane;
    {
        const std::scoped_lock lock(mutex_);
        if (!idle_.empty()) {
            lane = std::move(idle_.back());
            idle_.pop_back();
        }
    }
    if (!lane) lane = std::make_unique<Lane>(room_);
    const auto back = [pool = shared_from_this()](Lane* one) noexcept { pool->take_back(std::unique_ptr<Lane>(one)); };
    return {lane.release(), back};
}

void LanePool::take_back(std::unique_ptr<Lane> lane) noexcept {
    if (process_ != process_id()) return; // as above
    const std::scoped_lock lock(mutex_);
    if (idle_.size() < most_idle_) idle_.push_back(std::move(lane));
}

} // namespace headrace::deflate
