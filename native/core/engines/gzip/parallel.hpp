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

/// Inflates several stretches of a GZIP file in parallel. Made for bytes that hardly repeat, such as random numbers and
/// pictures. It refuses every other file, and every damaged one; the bytes it gave before that are right.
///
/// The caller gives the file in parts. Worker threads inflate any of them, and guess where blocks begin. `take` goes
/// through the parts in order, uses the right guesses, and inflates the rest itself, so no thread waits for another.
class GzipInflater {
  public:
    enum class State { going, done, refused };

    /// Inflated bytes, valid while the lane is held.
    struct Piece {
        Bytes bytes;
        std::shared_ptr<const deflate::Lane> lane;
    };

    static constexpr std::size_t default_stretch = std::size_t{512} << 10;
    static constexpr std::size_t default_margin = std::size_t{128} << 10; ///< Blocks of zlib have at most 32 KiB.

    /// Each of the `deflate::most_lanes` lanes of a part inflates up to `stretch` compressed bytes.
    explicit GzipInflater(std::size_t stretch = default_stretch, unsigned threads = 1,
                          std::size_t least_margin = default_margin, const Cpu& cpu = this_cpu);
    ~GzipInflater();
    GzipInflater(const GzipInflater&) = delete;
    GzipInflater& operator=(const GzipInflater&) = delete;

    /// The number of bytes that the next part owns: few at first, so that the first bytes come soon.
    [[nodiscard]] std::size_t own() const noexcept { return stretch_ * deflate::most_lanes; }
    [[nodiscard]] std::size_t most_own() const noexcept { return most_stretch_ * deflate::most_lanes; }
    /// The number of bytes behind its own that a part needs: blocks begin in one part and end in the next.
    [[nodiscard]] std::size_t margin() const noexcept { return margin_; }

    /// Whether another part may be given.
    [[nodiscard]] bool has_room() const noexcept {
        return !ended_ && given_ - taken_ < std::min(parts_at_once(), taken_ + 1);
    }
    /// The number of parts that may be waiting.
    [[nodiscard]] std::size_t parts_at_once() const noexcept { return threads_ + 2; }
    /// Gives the next part: its `own` bytes, which follow those of the part before, and the margin. `last` if the file
    /// ends with them. They must not change or move until the part is taken.
    void give(Bytes data, std::size_t own, bool last);
    /// The number of parts that were given and not taken.
    [[nodiscard]] std::size_t waiting() const noexcept { return given_ - taken_; }
    /// Takes the oldest part and returns its inflated bytes. There must be one. The vector is valid until the next call
    /// of `give` or `take`; copies of its pieces are valid for longer.
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
        std::vector<std::shared_ptr<deflate::Lane>> others; // for what was guessed wrong
        std::unique_ptr<deflate::Codes> found_codes;
        std::exception_ptr failure;
        enum class Progress { waiting, running, ready } progress = Progress::waiting;
    };

    [[nodiscard]] static std::unique_ptr<Part> new_part();
    void run(Part& part) const noexcept;
    void inflate(Part& part) const;
    void work() noexcept;
    void start_workers();
    void release_last();
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

    // The position in the file, relative to the part that is taken next.
    Next next_ = Next::header;
    std::uint64_t at_ = 0; // bit
    std::vector<Piece> pieces_;
    std::vector<std::byte> before_;    // the last bytes of this member
    std::uint32_t crc_ = 0, size_ = 0; // of this member
    std::uint32_t taken_crc_ = 0;
    std::uint64_t guessed_ = 0, again_ = 0; // bits
    bool any_member_ = false, judged_ = false;

    std::shared_ptr<deflate::LanePool> pool_;
    std::vector<std::unique_ptr<Part>> idle_;
    std::deque<std::unique_ptr<Part>> queue_; // given and not taken, oldest first
    std::unique_ptr<Part> last_taken_;
    struct Shared {
        std::mutex mutex; // for `queue_`, the progress of parts, and `stop`
        std::condition_variable given_more, one_ready;
        bool stop = false;
    };
    Cpu cpu_;
    std::unique_ptr<Shared> shared_;
    std::vector<std::thread> workers_;
    int process_ = 0; // the process of the workers
};

} // namespace headrace
