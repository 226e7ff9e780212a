#pragma once

#include <string_view>
#include <vector>

#include "core/base/cursor.hpp"

/// Headers of tar archives (POSIX.1-2001, ustar and pax interchange formats; GNU's long names), as writers of many
/// small files make them. Everything else is left to Python's `tarfile`, which decides what is damaged.
namespace headrace::tar {

inline constexpr std::size_t block_size = 512;

/// A regular file in an archive.
struct Member {
    std::string_view name;   ///< In the archive's bytes, without `prefix`. ASCII.
    std::string_view prefix; ///< The folder that ustar stores apart, or empty. ASCII.
    std::uint64_t header;    ///< Where its header begins, with those that only belong to it.
    std::uint64_t begin;     ///< Where its content begins.
    std::uint64_t size;
};

/// Regular files, and where the next header begins.
struct Members {
    std::vector<Member> files;
    std::uint64_t end;
};

/// Reads headers from `begin` on: at most `most` of files, or up to the first that is not plain, or is the end of the
/// archive. Plain are those of regular files and folders with octal numbers and ASCII names, after a long name of GNU
/// or a pax header that states no more than a path, times, owners and comments. All bytes of these files are there.
/// Reads every byte of a header once, and nothing beyond the archive.
[[nodiscard]] Members scan(Bytes archive, std::uint64_t begin, std::size_t most);

} // namespace headrace::tar
