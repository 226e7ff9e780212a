#include "core/engines/gzip/parallel.hpp"

#include <algorithm>
#include <utility>

#include "core/base/thread_team.hpp"
#include "core/checksum/crc32.hpp"

namespace headrace {
namespace {

using deflate::Lane;

constexpr std::size_t fixed_header = 10;
constexpr std::size_t trailer_bytes = 8;
constexpr unsigned extra_flag = 4, name_flag = 8, comment_flag = 16;
constexpr unsigned known_flags = 1 | extra_flag | name_flag | comment_flag; // without a checksum of the header
constexpr double wanted_literals = 0.975; // of all symbols; with more matches, one lane with wider tables is faster
constexpr std::size_t most_searched = std::size_t{128} << 10; // bytes, for the beginning of a block
constexpr std::uint64_t patience = std::uint64_t{8}
                                   << 20; // bits that may be inflated twice at first; later, a fifth of all
constexpr std::size_t most_others = 16;   // lanes of a part that inflate again
constexpr std::size_t first_stretch = std::size_t{256} << 10;

// Where the header at the beginning of `data` ends; 0 if it is cut off, or is none.
std::size_t header_end(Bytes data) {
    if (data.size() < fixed_header || data[0] != std::byte{0x1F} || data[1] != std::byte{0x8B} ||
        data[2] != std::byte{8})
        return 0;
    const auto flags = std::to_integer<unsigned>(data[3]);
    if ((flags & ~known_flags) != 0) return 0;
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

GzipInflater::GzipInflater(std::size_t stretch, unsigned threads, std::size_t least_margin, const Cpu& cpu)
    : most_stretch_(stretch),
      stretch_(std::min(stretch, first_stretch)),
      margin_(std::max(stretch / 4, least_margin)),
      threads_(std::max(threads, 1U)),
      pool_(deflate::LanePool::make(2 * stretch, (threads_ + 4) * deflate::most_lanes)),
      cpu_(cpu),
      shared_(new Shared) {}

GzipInflater::~GzipInflater() {
    // A forked child has this object, but not the threads.
    if (!workers_.empty() && process_ != process_id()) {
        for (std::thread& worker : workers_) worker.detach();
        (void)shared_.release();
        return;
    }
    {
        const std::scoped_lock lock(shared_->mutex);
        shared_->stop = true;
    }
    shared_->given_more.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

std::unique_ptr<GzipInflater::Part> GzipInflater::new_part() {
    auto part = std::make_unique<Part>();
    part->found_codes = std::make_unique_for_overwrite<deflate::Codes>();
    return part;
}

void GzipInflater::give(Bytes data, std::size_t own, bool last) {
    release_last();
    if (idle_.empty()) idle_.push_back(new_part());
    std::unique_ptr<Part> part = std::move(idle_.back());
    idle_.pop_back();
    part->data = data;
    part->own = std::min(own, data.size());
    part->is_first = given_ == 0;
    part->is_last = last;
    part->count = 0;
    for (auto& lane : part->lanes) lane = pool_->take();
    part->failure = nullptr;
    part->progress = Part::Progress::waiting;
    if (judged_) start_workers();
    {
        const std::scoped_lock lock(shared_->mutex);
        queue_.push_back(std::move(part));
    }
    // Only now: without memory for the part, nothing was given.
    ended_ = last;
    if (given_++ != 0) stretch_ = std::min(most_stretch_, 2 * stretch_);
    shared_->given_more.notify_one();
}

void GzipInflater::start_workers() {
    process_ = process_id();
    while (workers_.size() < threads_) {
        try {
            workers_.emplace_back(&GzipInflater::work, this);
        } catch (const std::exception&) { // No more threads, or no memory for one:
            return;                       // `take` inflates the parts itself.
        }
    }
}

void GzipInflater::work() noexcept {
    std::unique_lock lock(shared_->mutex);
    for (;;) {
        Part* part = nullptr;
        shared_->given_more.wait(lock, [&] {
            const auto found = std::find_if(queue_.begin(), queue_.end(),
                                            [](const auto& one) { return one->progress == Part::Progress::waiting; });
            part = found == queue_.end() ? nullptr : found->get();
            return shared_->stop || part != nullptr;
        });
        if (shared_->stop) return;
        part->progress = Part::Progress::running;
        lock.unlock();
        run(*part);
        lock.lock();
        part->progress = Part::Progress::ready;
        shared_->one_ready.notify_one();
    }
}

void GzipInflater::wait_for(Part& part) {
    {
        std::unique_lock lock(shared_->mutex);
        if (part.progress != Part::Progress::waiting) {
            shared_->one_ready.wait(lock, [&] { return part.progress == Part::Progress::ready; });
            return;
        }
        part.progress = Part::Progress::running;
    }
    run(part); // No worker has begun it.
}

void GzipInflater::run(Part& part) const noexcept {
    try {
        inflate(part);
    } catch (...) {
        part.failure = std::current_exception();
    }
}

void GzipInflater::inflate(Part& part) const {
    const std::size_t stretch = part.own / deflate::most_lanes;
    const std::size_t searched = std::min(stretch, most_searched);
    std::array<std::uint64_t, deflate::most_lanes + 1> starts{};
    part.count = 0;
    if (part.is_first) starts[part.count++] = std::uint64_t{header_end(part.data)} * 8;
    for (std::size_t i = part.count; i < deflate::most_lanes; ++i) {
        const std::uint64_t from = std::uint64_t{stretch * i} * 8;
        const std::uint64_t until = from + std::uint64_t{searched} * 8;
        const std::uint64_t found = deflate::find_block(part.data, from, until, *part.found_codes);
        if (found != until) starts[part.count++] = found;
    }
    starts[part.count] = std::uint64_t{part.own} * 8;
    std::array<Lane*, deflate::most_lanes> running{};
    for (std::size_t i = 0; i < part.count; ++i) {
        running[i] = part.lanes[i].get();
        running[i]->begin(part.data, starts[i], starts[i + 1]);
    }
    Lane::run({running.data(), part.count}, cpu_);
}

// Releases the part that was taken last. Holders of its pieces keep its lanes.
void GzipInflater::release_last() {
    pieces_.clear();
    if (!last_taken_) return;
    for (auto& lane : last_taken_->lanes) lane.reset();
    last_taken_->others.clear();
    idle_.push_back(std::move(last_taken_));
}

const std::vector<GzipInflater::Piece>& GzipInflater::take() {
    release_last();
    Part* oldest = nullptr;
    {
        const std::scoped_lock lock(shared_->mutex);
        oldest = queue_.front().get();
    }
    wait_for(*oldest);
    {
        const std::scoped_lock lock(shared_->mutex);
        last_taken_ = std::move(queue_.front());
        queue_.pop_front();
    }
    ++taken_;
    if (state_ != State::going) return pieces_;
    try {
        if (last_taken_->failure) std::rethrow_exception(last_taken_->failure);
        go_through(*last_taken_);
    } catch (...) { // What follows this part is lost.
        state_ = State::refused;
        pieces_.clear();
        throw;
    }
    return pieces_;
}

void GzipInflater::go_through(Part& part) {
    const std::uint64_t own = std::uint64_t{part.own} * 8;
    while (state_ == State::going) {
        if (!part.is_last && at_ >= own) {
            at_ -= own;
            return;
        }
        if (next_ == Next::header && any_member_ && at_ == std::uint64_t{part.data.size()} * 8) {
            state_ = State::done;
            return;
        }
        const bool went_on = next_ == Next::header   ? take_header(part)
                             : next_ == Next::blocks ? take_blocks(part)
                                                     : take_trailer(part);
        if (!went_on) state_ = State::refused;
    }
}

bool GzipInflater::take_header(const Part& part) {
    const auto begin = static_cast<std::size_t>(at_ >> 3);
    if (begin > part.data.size()) return false;
    const Bytes data = part.data.subspan(begin);
    const std::size_t size = header_end(data);
    if (size == 0) return false;
    at_ += std::uint64_t{size} * 8;
    before_.clear();
    crc_ = size_ = 0;
    next_ = Next::blocks;
    return true;
}

bool GzipInflater::take_trailer(const Part& part) {
    at_ = (at_ + 7) & ~std::uint64_t{7};
    const auto at = static_cast<std::size_t>(at_ >> 3);
    if (at > part.data.size() || part.data.size() - at < trailer_bytes) return false;
    const std::byte* const found = part.data.data() + at;
    if (load_le<std::uint32_t>(found) != crc_ || load_le<std::uint32_t>(found + 4) != size_) return false;
    at_ += trailer_bytes * 8;
    any_member_ = true;
    next_ = Next::header;
    return true;
}

bool GzipInflater::take_blocks(Part& part) {
    if (!judged_) { // Stored bytes, or many matches, are inflated faster by a library.
        std::uint64_t codes = at_ + 3;
        if ((deflate::bits_at(part.data, at_ + 1) & 3) != 2 || !part.found_codes->read(part.data, codes)) return false;
        if (part.found_codes->literal_share < wanted_literals) return false;
    }
    const std::shared_ptr<Lane> lane = lane_from(part, at_);
    if (!lane || lane->end() == at_ || !lane->resolve(before_)) return false;
    if (const Bytes bytes = lane->bytes(); !bytes.empty()) {
        const std::uint32_t crc = crc32(bytes);
        crc_ = join_crc32(crc_, crc, bytes.size());
        taken_crc_ = join_crc32(taken_crc_, crc, bytes.size());
        size_ += static_cast<std::uint32_t>(bytes.size());
        pieces_.push_back({bytes, lane});
    }
    const Bytes last = lane->last_bytes(before_.size());
    before_.assign(last.begin(), last.end());
    at_ = lane->end();
    if (lane->state() == Lane::State::last) next_ = Next::trailer;
    judged_ = true;
    return true;
}

std::shared_ptr<Lane> GzipInflater::lane_from(Part& part, std::uint64_t at) {
    for (std::size_t i = 0; i < part.count; ++i)
        if (part.lanes[i]->start() == at) {
            guessed_ += part.lanes[i]->end() - at;
            return part.lanes[i];
        }
    return inflate_again(part, at);
}

// Inflates from where no lane began to where the next one did.
std::shared_ptr<Lane> GzipInflater::inflate_again(Part& part, std::uint64_t at) {
    if (part.others.size() == most_others) return nullptr;
    std::uint64_t until = std::uint64_t{part.own} * 8;
    for (std::size_t i = 0; i < part.count; ++i)
        if (part.lanes[i]->start() > at) until = std::min(until, part.lanes[i]->start());
    part.others.push_back(pool_->take());
    const std::shared_ptr<Lane>& lane = part.others.back();
    Lane* const single = lane.get();
    single->begin(part.data, at, std::max(until, at + 1));
    Lane::run({&single, 1}, cpu_);
    again_ += lane->end() - at;
    return again_ > patience + guessed_ / 4 ? nullptr : lane;
}

} // namespace headrace
