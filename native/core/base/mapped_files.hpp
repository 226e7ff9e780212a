#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace headrace {

/// Identifies a file to the system.
struct FileId {
    std::uint64_t device = 0, inode = 0;
};

/// Finds addresses for the files of one set, so that each is mapped on the pages behind the one before. Safe in
/// threads.
class AdjacentPlaces {
  public:
    /// Where to map so many bytes, or nullptr: anywhere. Only a wish: if something else is there, the system chooses
    /// another place.
    [[nodiscard]] void* next(std::size_t size) noexcept;

    /// From now on, files up to this size are read completely when their first missing page is touched; 0: none.
    void read_whole(std::size_t most) noexcept { whole_bytes_.store(most, std::memory_order_relaxed); }
    [[nodiscard]] bool reads_whole(std::size_t size) const noexcept {
        return size <= whole_bytes_.load(std::memory_order_relaxed);
    }

  private:
    std::atomic<std::size_t> whole_bytes_{0};
    std::atomic<std::uintptr_t> next_{0}; ///< 0: none has been looked for.
};

/// A mapped file that another process may truncate at any time. Reading a page past the new end then raises SIGBUS, and
/// the rest of the last page reads as zeros. Inside a GuardedRead, the process survives the first and detects both.
class MappedFile {
  public:
    /// Maps the first `size` bytes (more than 0) of an open file. Throws std::system_error.
    /// `among`, if any, only has to outlive this call.
    MappedFile(int fd, std::size_t size, FileId id, std::string name, std::string opened, bool is_private = false,
               AdjacentPlaces* among = nullptr);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] const std::string& name() const noexcept { return name_; }     ///< What the user calls it.
    [[nodiscard]] const std::string& opened() const noexcept { return opened_; } ///< The file that was mapped.
    [[nodiscard]] bool is_private() const noexcept { return is_private_; }       ///< Whether users get copies only.
    [[nodiscard]] bool holds(const std::byte* at) const noexcept { return at >= data_ && at < data_ + size_; }

    /// Tells the system that all of the file will be read, or only small parts here and there. At first it expects
    /// neither, except where a set has small files read whole.
    void expect_all() const noexcept;
    void expect_scattered_reads(bool scattered) const noexcept;

    /// The bytes of the pages that so many bytes of a file take.
    [[nodiscard]] static std::size_t whole_pages(std::size_t size) noexcept;

    /// Whether the file was truncated. Call it inside a GuardedRead, after the last read.
    [[nodiscard]] bool shrank() const noexcept;

    /// The registered file that holds an address, or none, and the addresses for which this answer is valid.
    struct Stretch {
        const std::byte* begin = nullptr;
        const std::byte* end = nullptr;
        const MappedFile* file = nullptr;
    };
    [[nodiscard]] static Stretch find(const std::byte* at);

  private:
    friend class GuardedRead;
    friend struct MappedFiles;

    [[nodiscard]] static Stretch look_up(const std::byte* at);
    [[nodiscard]] bool has_become_shorter() const noexcept;

    std::byte* data_ = nullptr;
    std::size_t size_;
    std::string name_, opened_;
    bool is_private_;
    FileId id_;
    const volatile std::byte* probe_ = nullptr; ///< The last byte of the last page that is not zero, if any. It
                                                ///< becomes zero when the file is truncated before it.
    std::byte probed_{};                        ///< Its original value.
    mutable std::byte* zeros_ = nullptr;        ///< Zero pages replace the lost part from here on.
    mutable std::byte* set_aside_ = nullptr;    ///< Where the mapping of that part was moved,
    mutable std::size_t aside_size_ = 0;        ///< and its bytes.
    mutable std::atomic<bool> expects_all_{false};
    mutable std::atomic<std::uint64_t> last_event_{0};
    mutable MappedFile *next_ = nullptr, *previous_ = nullptr;
};

/// While one exists, lost pages of registered files read as zeros in this thread, and `lost` returns the file. Strictly
/// nested in each thread. Without one, the process ends, after a line on stderr that gives the reason.
class GuardedRead {
  public:
    GuardedRead() noexcept;
    ~GuardedRead();
    GuardedRead(const GuardedRead&) = delete;
    GuardedRead& operator=(const GuardedRead&) = delete;

    /// Registers a file that is read here, so that zeros past its new end are detected too.
    void touch(const MappedFile* file);
    void touch(std::span<const MappedFile* const> files);

    /// The same where only these stretches of the files are read. Each has at least four more bytes behind it in its
    /// file. If they are not zero after the read, no byte before them was lost. Unlike the last byte of a file they are
    /// in the cache, which matters if every stretch is in another file. Without stretches, the ends of all files count.
    /// Both must outlive the guard.
    void touch_stretches(std::span<const MappedFile* const> files,
                         std::span<const std::span<const std::byte>> stretches);

    /// Whether `lost` looks behind these stretches.
    [[nodiscard]] bool looks_behind(std::span<const std::span<const std::byte>> stretches) const noexcept {
        return !stretches_.empty() && stretches.data() == stretches_.data() && stretches.size() == stretches_.size();
    }

    /// Tells that the bytes behind each stretch were not zero after its last read, so `lost` need not look there.
    void note_intact() noexcept { is_intact_ = true; }

    /// The same by address. Returns the file, or nullptr if the address is in none.
    const MappedFile* touch(const std::byte* at);

    /// What `lost` checks. `pages`: only lost pages, for calls whose files are read again inside another guard.
    /// Checking the last byte of every file costs a cache miss each, so only that guard does it.
    enum class Look : std::uint8_t { pages, everything };

    /// A file that was truncated while this guard read it, or nullptr. Call it after the last read.
    [[nodiscard]] const MappedFile* lost(Look look = Look::everything) noexcept;

    /// The guard of this thread, or nullptr.
    [[nodiscard]] static GuardedRead* current() noexcept;

    /// Extends the guard of a caller to a helper thread.
    class Helper {
      public:
        explicit Helper(GuardedRead* of) noexcept;
        ~Helper();
        Helper(const Helper&) = delete;
        Helper& operator=(const Helper&) = delete;

      private:
        GuardedRead* before_;
    };

  private:
    friend struct MappedFiles;

    [[nodiscard]] const MappedFile* find_shorter() const noexcept;

    GuardedRead* outer_;
    std::uint64_t entered_;
    std::atomic<const MappedFile*> hit_{nullptr};
    MappedFile::Stretch last_;
    static constexpr std::size_t few = 4;
    std::array<const MappedFile*, few> first_{};
    std::size_t count_ = 0;
    std::vector<const MappedFile*> more_;
    std::span<const MappedFile* const> of_stretches_;
    std::span<const std::span<const std::byte>> stretches_;
    bool is_intact_ = false; ///< Nothing behind a stretch was zero.
};

} // namespace headrace
