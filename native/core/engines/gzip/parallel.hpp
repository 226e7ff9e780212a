#pragma once

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/engines/gzip/lane_pool.hpp"

namespace headrace {

/// Inflates a GZIP file of bytes that hardly repeat (random numbers, pictures), stretches of it side by side. For
/// nothing else: what it is not made for, and whatever is not sound, it refuses, and what it gave until then is right.
///
/// The file comes in parts. Threads of its own inflate any of them, guessing where in it blocks begin; whoever takes
/// the parts goes through them in order, uses what was guessed rightly, and inflates itself what was not. So no thread
/// waits for another one's part.
class GzipInflater {
  public:
    enum class State { going, done, refused };

    /// Inflated bytes, which lie there as long as the lane is held.
    struct Piece {
        Bytes bytes;
        std::shared_ptr<const deflate::Lane> lane;
    };

    static constexpr std::size_t default_stretch = std::size_t{1} << 20;
    static constexpr std::size_t usual_margin = std::size_t{128} << 10; ///< Blocks of zlib have 32 KiB at most.

    /// Each lane inflates up to `stretch` compressed bytes of a part, which has `deflate::most_lanes` lanes. Up to so
    /// many threads.
    explicit GzipInflater(std::size_t stretch = default_stretch, unsigned threads = 1,
                          std::size_t least_margin = usual_margin);
    ~GzipInflater();
    GzipInflater(const GzipInflater&) = delete;
    GzipInflater& operator=(const GzipInflater&) = delete;

    /// How many bytes the next part is to own: few at first, so that the first bytes come soon.
    [[nodiscard]] std::size_t own() const noexcept { return stretch_ * deflate::most_lanes; }
    [[nodiscard]] std::size_t most_own() const noexcept { return most_stretch_ * deflate::most_lanes; }
    /// How many bytes behind its own it is to have: blocks begin in one part and end in the next.
    [[nodiscard]] std::size_t margin() const noexcept { return margin_; }

    /// Whether another part may be given.
    [[nodiscard]] bool has_room() const noexcept {
        return !ended_ && given_ - taken_ < std::min(parts_at_once(), taken_ + 1);
    }
    /// How many parts may be given and not yet taken.
    [[nodiscard]] std::size_t parts_at_once() const noexcept { return threads_ + 2; }
    /// Gives the next part: its `own` bytes, which come behind those of the part before, and the margin; `last` where
    /// the file ends with them. They stay where they are until the part is taken.
    void give(Bytes data, std::size_t own, bool last);
    /// How many parts were given and not taken.
    [[nodiscard]] std::size_t waiting() const noexcept { return given_ - taken_; }
    /// Takes the oldest part: what it inflates to. There must be one. Until the next call of `give` or `take`; the
    /// pieces may be kept.
    [[nodiscard]] const std::vector<Piece>& take();
    /// The CRC-32 of all that was taken.
    [[nodiscard]] std::uint32_t taken_crc() const noexcept { return taken_crc_; }

    [[nodiscard]] State state() const noexcept { return state_; }

  private:
    enum class Next { header, blocks, trailer };
    using Lanes = std::array<std::shared_ptr<deflate::Lane>, deflate::most_lanes>;

    struct Part {
        Bytes data;
        std::size_t own = 0;
        bool is_first = false, is_last = false;
        Lanes lanes;
        std::size_t count = 0;                              // of lanes in use
        std::vector<std::shared_ptr<deflate::Lane>> others; // for what was not guessed rightly
        std::unique_ptr<deflate::Codes> found_codes;
        std::exception_ptr failure;
        enum class Progress { waiting, running, ready } progress = Progress::waiting;
    };

    [[nodiscard]] std::unique_ptr<Part> new_part() const;
    static void run(Part& part) noexcept;
    static void inflate(Part& part);
    void work() noexcept;
    void hire();
    void let_go();
    void wait_for(Part& part);
    void go_through(Part& part);
    [[nodiscard]] bool take_header(const Part& part);
    [[nodiscard]] bool take_blocks(Part& part);
    [[nodiscard]] bool take_trailer(const Part& part);
    [[nodiscard]] std::shared_ptr<deflate::Lane> lane_from(Part& part, std::uint64_t at);
    [[nodiscard]] std::shared_ptr<deflate::Lane> inflate_again(Part& part, std::uint64_t at);

    std::size_t most_stretch_, stretch_, margin_;
    unsigned threads_;
    bool ended_ = false; // the last part was given
    std::size_t given_ = 0, taken_ = 0;
    State state_ = State::going;

    // In the file, relative to the part that is taken next.
    Next next_ = Next::header;
    std::uint64_t at_ = 0; // bit
    std::vector<Piece> pieces_;
    std::vector<std::byte> before_;    // the last bytes of this member
    std::uint32_t crc_ = 0, size_ = 0; // of this member
    std::uint32_t taken_crc_ = 0;
    std::uint64_t guessed_ = 0, again_ = 0; // bits
    bool any_member_ = false, judged_ = false;

    std::shared_ptr<deflate::LaneStock> stock_;
    std::vector<std::unique_ptr<Part>> idle_;
    std::deque<std::unique_ptr<Part>> queue_; // what was given and is not taken, oldest first
    std::unique_ptr<Part> last_taken_;
    struct Meeting {
        std::mutex mutex; // for `queue_`, the progress of parts, and `stop`
        std::condition_variable given_more, one_ready;
        bool stop = false;
    };
    std::unique_ptr<Meeting> meeting_;
    std::vector<std::thread> workers_;
    int process_ = 0; // in which the workers are
};

} // namespace headrace
