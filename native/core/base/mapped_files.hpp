#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace headrace {

/// What the system knows a file by.
struct FileId {
    std::uint64_t device = 0, inode = 0;
};

/// A file in memory that another process may cut shorter at any time. The system then ends a process that touches a
/// page behind the new end (SIGBUS), and shows zeros behind it in the page that holds it. Registered files survive the
/// first, and notice both, where they are read inside a GuardedRead.
class MappedFile {
  public:
    /// Maps the first `size` bytes (more than 0) of an open file. Throws std::system_error.
    MappedFile(int fd, std::size_t size, FileId id, std::string name, std::string opened, bool is_private = false);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] const std::string& name() const noexcept { return name_; }     ///< What the user calls it.
    [[nodiscard]] const std::string& opened() const noexcept { return opened_; } ///< The file that was mapped.
    [[nodiscard]] bool is_private() const noexcept { return is_private_; }       ///< Whether users get copies only.
    [[nodiscard]] bool holds(const std::byte* at) const noexcept { return at >= data_ && at < data_ + size_; }

    /// Whether the part behind some place was cut off. Inside a GuardedRead only, after the bytes were read.
    [[nodiscard]] bool shrank() const noexcept;

    /// Registered files by address: the one that holds `at`, or none, and the stretch of addresses that this answer is
    /// good for.
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
    const volatile std::byte* probe_ = nullptr; ///< The last byte of the last page that is not zero, if there is one:
                                                ///< when the file is cut before it, it is.
    std::byte probed_{};                        ///< What it was.
    mutable std::byte* zeros_ = nullptr;        ///< From here on there are zeros in place of what the file lost.
    mutable std::byte* set_aside_ = nullptr;    ///< Where the mapping of that part is meanwhile,
    mutable std::size_t aside_size_ = 0;        ///< and its bytes.
    mutable std::atomic<std::uint64_t> last_event_{0};
    mutable MappedFile *next_ = nullptr, *previous_ = nullptr;
};

/// While one exists, this thread may touch lost pages of registered files: they read as zeros, and `lost` names the
/// file. Strictly nested in each thread. Without one, the process ends, after a line on stderr that says why.
class GuardedRead {
  public:
    GuardedRead() noexcept;
    ~GuardedRead();
    GuardedRead(const GuardedRead&) = delete;
    GuardedRead& operator=(const GuardedRead&) = delete;

    /// Notes that bytes of this file are read here, so that zeros behind its new end are noticed too.
    void touch(const MappedFile* file);
    void touch(std::span<const MappedFile* const> files);

    /// As touch, by address. Gives the file, or nullptr where the bytes are of none.
    const MappedFile* touch(const std::byte* at);

    /// What `lost` looks for. `pages`: lost pages only, where the bytes of the files are read again later, inside
    /// another guard: that one reads the last bytes of every file, which costs a cache miss for each.
    enum class Look : std::uint8_t { pages, everything };

    /// A file of which something was read that was not there any more, or nullptr. Call it after the last read.
    [[nodiscard]] const MappedFile* lost(Look look = Look::everything) noexcept;

    /// That of this thread, or nullptr.
    [[nodiscard]] static GuardedRead* current() noexcept;

    /// Lets a thread work for the call that another thread guards.
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
};

} // namespace headrace
