#include "core/base/mapped_files.hpp"

#if defined(__unix__) || defined(__APPLE__)

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace headrace {
namespace {

/// Held for a few instructions and system calls, also inside the signal handler. No mapped file is read while it is
/// held, so the handler never waits for its own thread.
class SpinLock {
  public:
    void lock() noexcept {
        while (held_.test_and_set(std::memory_order_acquire)) {}
    }
    void unlock() noexcept { held_.clear(std::memory_order_release); }

  private:
    std::atomic_flag held_;
};

class Locked {
  public:
    explicit Locked(SpinLock& lock) noexcept : lock_(lock) { lock_.lock(); }
    ~Locked() { lock_.unlock(); }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

  private:
    SpinLock& lock_;
};

// NOLINTNEXTLINE(performance-no-int-to-ptr): points to no object.
const std::byte* end_of_memory() noexcept { return reinterpret_cast<const std::byte*>(UINTPTR_MAX); }

SpinLock lock;
MappedFile* first_file = nullptr; // all registered files: the signal handler cannot use the map
std::map<const std::byte*, const MappedFile*>* by_address =
    nullptr;                           // never deleted: mappings may outlive static destruction
std::atomic<std::uint64_t> version{1}; // of first_file and by_address
std::atomic<std::uint64_t> events{1};  // counts how often pages were replaced by zeros or restored
std::atomic<std::size_t> replaced{0};  // files that contain zero pages now
struct sigaction previous_action{};
std::size_t page_bytes = 4096;
pthread_key_t guard_key;

void write_to_stderr(const char* text, std::size_t size) noexcept {
    while (size != 0) {
        const ssize_t written = ::write(STDERR_FILENO, text, size);
        if (written <= 0) return;
        text += written;
        size -= static_cast<std::size_t>(written);
    }
}

void write_to_stderr(const char* text) noexcept { write_to_stderr(text, std::strlen(text)); }

} // namespace

/// What the signal handler does.
struct MappedFiles {
    static void handle(int number, siginfo_t* info, void* context) noexcept {
        const int error = errno;
        auto* const guard = static_cast<GuardedRead*>(pthread_getspecific(guard_key));
        if (info->si_code == BUS_ADRERR) {
            auto* const at = static_cast<std::byte*>(info->si_addr);
            const Locked locked(lock);
            for (MappedFile* file = first_file; file != nullptr; file = file->next_) {
                if (!file->holds(at)) continue;
                if (guard == nullptr) {
                    report_fatal_read(*file);
                } else if (replace(*file, at)) {
                    guard->hit_.store(file, std::memory_order_release);
                    errno = error;
                    return;
                }
                break;
            }
        }
#ifdef SI_TKILL
        if (info->si_code == SI_TKILL && guard != nullptr && info->si_pid == getpid()) {
            // A handler installed after this one forwards the signal, as faulthandler does: retry the read.
            errno = error;
            return;
        }
#endif
        pass_on(number, info, context);
        errno = error;
    }

    /// Zeros from the page of `at` to the end: the file ends before it. The mapping moves elsewhere until
    /// put_back.
    static bool replace(const MappedFile& file, std::byte* at) noexcept {
        std::byte* const from = file.data_ + static_cast<std::size_t>(at - file.data_) / page_bytes * page_bytes;
        if (file.zeros_ != nullptr && file.zeros_ <= from) return true; // Another thread has replaced them.
        put_back(file);
        if (file.zeros_ != nullptr && file.zeros_ <= from) return true;
        const auto length = static_cast<std::size_t>(file.data_ + file.size_ - from);
        void* aside = nullptr;
#ifdef MREMAP_MAYMOVE
        aside = mremap(from, 0, length, MREMAP_MAYMOVE); // Size 0 makes another mapping of the same part of the file.
        if (aside == MAP_FAILED) aside = nullptr;
#endif
        void* const zeros = mmap(from, length, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (zeros == MAP_FAILED) {
            if (aside != nullptr) munmap(aside, length);
            return false;
        }
        file.set_aside_ = static_cast<std::byte*>(aside);
        file.aside_size_ = length;
        if (file.zeros_ == nullptr) replaced.fetch_add(1, std::memory_order_acq_rel);
        file.zeros_ = from;
        file.last_event_.store(events.fetch_add(1, std::memory_order_acq_rel) + 1, std::memory_order_release);
        return true;
    }

    /// Restores the mapping, so that reads fail again or see what was written since. If the system cannot, the zeros
    /// stay and are detected.
    static void put_back(const MappedFile& file) noexcept {
#ifdef MREMAP_MAYMOVE
        if (file.set_aside_ == nullptr) return;
        const std::size_t length = file.aside_size_;
        if (mremap(file.set_aside_, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, file.zeros_) == MAP_FAILED) return;
        file.set_aside_ = file.zeros_ = nullptr;
        file.last_event_.store(events.fetch_add(1, std::memory_order_acq_rel) + 1, std::memory_order_release);
        replaced.fetch_sub(1, std::memory_order_acq_rel);
#else
        (void)file;
#endif
    }

    static void report_fatal_read(const MappedFile& file) noexcept {
        write_to_stderr("headrace: ");
        write_to_stderr(file.opened_.data(), file.opened_.size());
        write_to_stderr(
            " shrank, or its disk failed, while an array or memoryview of its mapped bytes was in use, so this process "
            "has to end. "
            "Set HEADRACE_MAPPED_BYTES=0 to get copies instead.\n");
    }

    static void pass_on(int number, siginfo_t* info, void* context) noexcept {
        if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
            previous_action.sa_sigaction(number, info, context);
        } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
            previous_action.sa_handler(number);
        } else if (info->si_code > 0 || previous_action.sa_handler == SIG_DFL) {
            struct sigaction usual{};
            usual.sa_handler = SIG_DFL;
            sigaction(number, &usual, nullptr);
            if (info->si_code <= 0) raise(number); // A faulting read is retried; a signal that was sent is not.
        }
    }

    /// Runs once, with the first mapping. A handler installed later takes precedence.
    static void install() {
        [[maybe_unused]] static const bool installed = [] {
            page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
            by_address = new std::map<const std::byte*, const MappedFile*>;
            // Held during a fork, so that the child finds the map of addresses whole. Who holds it never waits for
            // another lock, except that of the heap, which the system takes after this one.
            const auto unlock = [] { lock.unlock(); };
            pthread_atfork([] { lock.lock(); }, unlock, unlock);
            struct sigaction ours{};
            ours.sa_sigaction = &handle;
            ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
            sigemptyset(&ours.sa_mask);
            sigaction(SIGBUS, &ours, &previous_action);
            return true;
        }();
    }
};

namespace {

/// Created before any guard.
[[maybe_unused]] const bool has_key = pthread_key_create(&guard_key, nullptr) == 0;

constexpr std::uintptr_t stretch_bytes = std::uintptr_t{1} << (sizeof(void*) > 4 ? 34 : 28); ///< Looked for at once.
constexpr std::size_t small_bytes = 2U << 20; ///< Larger files get addresses that suit huge pages.

/// The first page but one of unused addresses from a multiple of stretch_bytes to the next, or 0.
std::uintptr_t find_stretch() noexcept {
    void* const found = mmap(nullptr, 2 * stretch_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) return 0;
    munmap(found, 2 * stretch_bytes);
    const auto begin = reinterpret_cast<std::uintptr_t>(found);
    return (begin + stretch_bytes - 1) / stretch_bytes * stretch_bytes + page_bytes;
}

} // namespace

// Linux would map each file before the one before it, and reading 1,000 files of 188 kB in order then takes 3 % longer
// (2026-11-25, AMD Zen 4, in a program outside the project), probably because processors prefetch forwards, also beyond
// the end of a file. Files on adjacent pages are also read as one buffer.
void* AdjacentPlaces::next(std::size_t size) noexcept {
    if (size >= small_bytes) return nullptr;
    const std::uintptr_t taken = MappedFile::whole_pages(size);
    std::uintptr_t next = next_.load(std::memory_order_relaxed);
    std::uintptr_t place = 0;
    do {
        const std::uintptr_t used = next % stretch_bytes; // 0: none is left
        place = used == 0 || taken > stretch_bytes - used ? find_stretch() : next;
        if (place == 0) return nullptr;
    } while (!next_.compare_exchange_weak(next, place + taken, std::memory_order_relaxed));
    return reinterpret_cast<void*>(place); // NOLINT(performance-no-int-to-ptr): points to no object
}

MappedFile::MappedFile(int fd, std::size_t size, FileId id, std::string name, std::string opened, bool is_private,
                       AdjacentPlaces* among)
    : size_(size),
      name_(std::move(name)),
      opened_(std::move(opened)),
      is_private_(is_private),
      id_(id) {
    MappedFiles::install();
    void* const place = among == nullptr ? nullptr : among->next(size);
    void* at = mmap(place, size, PROT_READ, MAP_SHARED, fd, 0);
    // Some FUSE file systems (those that cache nothing) refuse shared mappings only.
    if (at == MAP_FAILED && errno == ENODEV) at = mmap(place, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category());
    data_ = static_cast<std::byte*>(at);
    if (among != nullptr && among->reads_whole(size)) expect_all();
    {
        const Locked locked(lock);
        by_address->emplace(data_, this);
        version.fetch_add(1, std::memory_order_acq_rel);
        next_ = first_file;
        if (first_file != nullptr) first_file->previous_ = this;
        first_file = this;
    }
    GuardedRead guard; // The file may shrink already.
    // Touching the end of a large file that is on a disk would read megabytes around it. This reads two pages, which
    // also hold the block whose checksum is part of the file's signature.
    std::byte end[8192];
    if (size > (std::size_t{128} << 10) && !expects_all_.load(std::memory_order_relaxed))
        (void)!pread(fd, end, sizeof end, static_cast<off_t>(size - sizeof end));
    const volatile std::byte* const page = data_ + (size - 1) / page_bytes * page_bytes;
    for (probe_ = data_ + size - 1; probe_ != page && *probe_ == std::byte{0};) --probe_;
    probed_ = *probe_;
}

// Linux then reads what it lacks in parts of 2 MB, into adjacent memory. Otherwise it reads as much as the disk's
// setting says (128 kB as a rule) around each missing page, less where several threads jump, and into scattered pages,
// from which copying takes longer in every epoch. On 2026-11-30 (AMD Zen 3, Linux 6.18, ext4), a first epoch of 492 MB
// of .npy from the disk took 0.43 s instead of 0.59 in order and 0.49 instead of 1.07 shuffled. In a program outside
// the project, touching 1,000 files of 188 kB took 0.24 s instead of 0.50, and copying their records in order 22 ms
// instead of 25. Formats that scan their files first, in order, gained nothing.
void MappedFile::expect_all() const noexcept {
#ifdef MADV_HUGEPAGE
    if (!expects_all_.exchange(true, std::memory_order_relaxed)) madvise(data_, size_, MADV_HUGEPAGE);
#endif
}

void MappedFile::expect_scattered_reads(bool scattered) const noexcept {
    madvise(data_, size_, scattered ? MADV_RANDOM : MADV_NORMAL);
#ifdef MADV_HUGEPAGE
    if (scattered && expects_all_.exchange(false, std::memory_order_relaxed)) madvise(data_, size_, MADV_NOHUGEPAGE);
#endif
}

std::size_t MappedFile::whole_pages(std::size_t size) noexcept {
    return (size + page_bytes - 1) / page_bytes * page_bytes;
}

MappedFile::~MappedFile() {
    const Locked locked(lock);
    by_address->erase(data_);
    version.fetch_add(1, std::memory_order_acq_rel);
    (previous_ != nullptr ? previous_->next_ : first_file) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
    if (zeros_ != nullptr) replaced.fetch_sub(1, std::memory_order_acq_rel);
    if (set_aside_ != nullptr) munmap(set_aside_, aside_size_);
    munmap(data_, size_);
}

MappedFile::Stretch MappedFile::find(const std::byte* at) {
    // Usually the file is the same as last time, or the address is in the same gap between files.
    thread_local Stretch last;
    thread_local std::uint64_t of_version = 0;
    const std::uint64_t now = version.load(std::memory_order_acquire);
    if (of_version == now && last.begin <= at && at < last.end) return last;
    of_version = now;
    return last = look_up(at);
}

MappedFile::Stretch MappedFile::look_up(const std::byte* at) {
    const Locked locked(lock);
    if (by_address == nullptr) return {nullptr, end_of_memory(), nullptr};
    const auto after = by_address->upper_bound(at);
    const std::byte* const end = after == by_address->end() ? end_of_memory() : after->first;
    if (after == by_address->begin()) return {nullptr, end, nullptr};
    const MappedFile* const file = std::prev(after)->second;
    const std::byte* const behind = file->data_ + file->size_;
    return at < behind ? Stretch{file->data_, behind, file} : Stretch{behind, end, nullptr};
}

// When a file shrinks, the system first unmaps the pages past the new end, then zeroes the rest of the last page. A
// probe that is still set after a read therefore proves that all bytes before it were valid. Unlike fstat, this needs
// no system call, which matters for a thousand shards. Where the last page was all zeros from the start, only its
// presence counts.
bool MappedFile::shrank() const noexcept {
    const std::byte found = *probe_;
    return found == std::byte{0} && probed_ != std::byte{0} && has_become_shorter();
}

bool MappedFile::has_become_shorter() const noexcept {
    struct stat status{};
    if (stat(opened_.c_str(), &status) != 0) return true; // Removed or replaced.
    const bool is_same = static_cast<std::uint64_t>(status.st_dev) == id_.device &&
                         static_cast<std::uint64_t>(status.st_ino) == id_.inode;
    // If the file was rewritten in the meantime, the byte is no longer zero. A file changed in place keeps its size and
    // its zero.
    return !is_same || std::cmp_less(status.st_size, size_) || *probe_ != std::byte{0};
}

GuardedRead::GuardedRead() noexcept : outer_(current()), entered_(events.load(std::memory_order_acquire)) {
    pthread_setspecific(guard_key, this);
}

GuardedRead::~GuardedRead() { pthread_setspecific(guard_key, outer_); }

GuardedRead* GuardedRead::current() noexcept { return static_cast<GuardedRead*>(pthread_getspecific(guard_key)); }

void GuardedRead::touch(const MappedFile* file) {
    if (file == nullptr) return;
    if (count_ < few) first_[count_++] = file;
    else more_.push_back(file);
}

void GuardedRead::touch(std::span<const MappedFile* const> files) {
    if (files.size() > few - count_) {
        more_.insert(more_.end(), files.begin(), files.end());
        return;
    }
    for (const MappedFile* file : files) first_[count_++] = file;
}

void GuardedRead::touch_stretches(std::span<const MappedFile* const> files,
                                  std::span<const std::span<const std::byte>> stretches) {
    if (!of_stretches_.empty() || !stretches_.empty()) return touch(files);
    of_stretches_ = files;
    stretches_ = stretches;
}

const MappedFile* GuardedRead::touch(const std::byte* at) {
    if (last_.begin <= at && at < last_.end) return last_.file; // already noted
    last_ = MappedFile::find(at);
    touch(last_.file);
    return last_.file;
}

const MappedFile* GuardedRead::lost(Look look) noexcept {
    const MappedFile* found = look == Look::everything ? find_shorter() : nullptr;
    const MappedFile* const hit = hit_.load(std::memory_order_acquire);
    if (hit != nullptr) found = hit;
    const bool is_calm =
        events.load(std::memory_order_acquire) == entered_ && replaced.load(std::memory_order_acquire) == 0;
    if (found == nullptr && is_calm) return nullptr;
    // Another thread's read may have put zeros there.
    const Locked locked(lock);
    const auto restore = [&](const MappedFile* file) {
        if (file->zeros_ != nullptr || file->last_event_.load(std::memory_order_acquire) > entered_) found = file;
        MappedFiles::put_back(*file);
    };
    std::for_each_n(first_.begin(), count_, restore);
    std::for_each(more_.begin(), more_.end(), restore);
    std::for_each(of_stretches_.begin(), of_stretches_.end(), restore);
    if (hit != nullptr) MappedFiles::put_back(*hit);
    return found;
}

const MappedFile* GuardedRead::find_shorter() const noexcept {
    const MappedFile* found = nullptr;
#ifndef __SANITIZE_THREAD__                              // which does not support fences
    std::atomic_thread_fence(std::memory_order_acquire); // Read the probes after everything else.
#endif
    const auto look = [&](const MappedFile* file) {
        if (file->shrank()) found = file;
    };
    // A batch may come from hundreds of files, and each takes two cache misses and one of address translation.
    // Prefetching lets them overlap.
    constexpr std::size_t ahead = 16;
    const auto prefetch_file = [&](std::size_t i) {
        if (i < more_.size()) __builtin_prefetch(static_cast<const void*>(&more_[i]->probe_));
    };
    const auto prefetch_probe = [&](std::size_t i) {
        if (i < more_.size()) __builtin_prefetch(const_cast<const std::byte*>(more_[i]->probe_));
    };
    for (std::size_t i = 0; i < 2 * ahead; ++i) prefetch_file(i);
    for (std::size_t i = 0; i < ahead; ++i) prefetch_probe(i);
    std::for_each_n(first_.begin(), count_, look);
    for (std::size_t i = 0; i < more_.size(); ++i) {
        prefetch_file(i + 2 * ahead);
        prefetch_probe(i + ahead);
        look(more_[i]);
    }
    // Where the next stretch begins on the page where this one ends, it is in the same file, and what is behind it is
    // enough. In order, that saves most of the looks, each of which may take a miss of the cache and of the addresses.
    const auto on_one_page = [](const std::byte* one, const std::byte* other) { // The size is a power of two.
        return (reinterpret_cast<std::uintptr_t>(one) ^ reinterpret_cast<std::uintptr_t>(other)) < page_bytes;
    };
    const auto is_kept = [&](std::size_t i) {
        const std::byte* const end = stretches_[i].data() + stretches_[i].size();
        if (i + 1 < stretches_.size()) {
            const std::byte* const next = stretches_[i + 1].data();
            if (next > end && on_one_page(next, end)) return true;
        }
        std::uint32_t behind = 0;
        std::memcpy(&behind, end, sizeof behind);
        return behind != 0;
    };
    if (stretches_.empty()) std::for_each(of_stretches_.begin(), of_stretches_.end(), look);
    for (std::size_t i = 0; i < stretches_.size() && !is_intact_; ++i) {
        if (is_kept(i)) continue;
        std::for_each(of_stretches_.begin(), of_stretches_.end(), look);
        break;
    }
    return found;
}

GuardedRead::Helper::Helper(GuardedRead* of) noexcept : before_(current()) { pthread_setspecific(guard_key, of); }

GuardedRead::Helper::~Helper() { pthread_setspecific(guard_key, before_); }

} // namespace headrace

#else // Other systems do not allow truncating a mapped file.

namespace headrace {
namespace {

// NOLINTNEXTLINE(performance-no-int-to-ptr): points to no object.
const std::byte* end_of_memory() noexcept { return reinterpret_cast<const std::byte*>(UINTPTR_MAX); }

} // namespace

GuardedRead::GuardedRead() noexcept : outer_(nullptr), entered_(0) {}
GuardedRead::~GuardedRead() = default;
GuardedRead* GuardedRead::current() noexcept { return nullptr; }
void GuardedRead::touch(const MappedFile*) {}
const MappedFile* GuardedRead::touch(const std::byte*) { return nullptr; }
void GuardedRead::touch(std::span<const MappedFile* const>) {}
void GuardedRead::touch_stretches(std::span<const MappedFile* const>, std::span<const std::span<const std::byte>>) {}
const MappedFile* GuardedRead::lost(Look) noexcept { return nullptr; }
GuardedRead::Helper::Helper(GuardedRead*) noexcept : before_(nullptr) {}
GuardedRead::Helper::~Helper() {}
MappedFile::Stretch MappedFile::find(const std::byte*) { return {nullptr, end_of_memory(), nullptr}; }
std::size_t MappedFile::whole_pages(std::size_t size) noexcept { return size; }

} // namespace headrace

#endif
