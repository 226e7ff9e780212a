#include "core/framing/tar.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace headrace::tar {
namespace {

/// A field of a header.
struct Field {
    std::size_t begin, size;
};

constexpr Field name_field{0, 100}, size_field{124, 12}, checksum_field{148, 8}, prefix_field{345, 155};
constexpr std::size_t type_at = 156, magic_at = 257;
constexpr std::array<Field, 6> other_numbers{{{100, 8}, {108, 8}, {116, 8}, {136, 12}, {329, 8}, {337, 8}}};
constexpr std::string_view posix_magic("ustar\0", 6);
constexpr std::uint64_t most_extension = 64 << 10; // bytes of a pax header or a long name

/// Of a pax header, what does not change where a file is and what it is called; and the beginnings of more of that.
constexpr std::array<std::string_view, 8> harmless{"mtime", "atime", "ctime", "uid",
                                                   "gid",   "uname", "gname", "comment"};
constexpr std::array<std::string_view, 2> harmless_vendors{"SCHILY.", "LIBARCHIVE."};

/// The text of a header's field, up to its first NUL.
std::string_view text_of(std::string_view header, Field field) {
    const std::string_view text = header.substr(field.begin, field.size);
    return text.substr(0, text.find('\0'));
}

/// Whether a text is ASCII without NUL, which is the same in every encoding.
bool is_plain(std::string_view text) {
    return std::ranges::all_of(text, [](char each) { return each > 0; });
}

bool is_empty(std::string_view padding) {
    return std::ranges::all_of(padding, [](char each) { return each == 0; });
}

bool is_harmless(std::string_view key) {
    return std::ranges::find(harmless, key) != harmless.end() ||
           std::ranges::any_of(harmless_vendors, [key](std::string_view vendor) { return key.starts_with(vendor); });
}

/// An octal number between blanks; nothing for other text. `empty` stands for no digits.
std::optional<std::uint64_t> octal_of(std::string_view text, std::optional<std::uint64_t> empty) {
    const std::size_t first = text.find_first_not_of(' ');
    if (first == std::string_view::npos) return empty;
    text = text.substr(first, text.find_last_not_of(' ') + 1 - first);
    std::uint64_t number = 0;
    for (const char digit : text) {
        if (digit < '0' || digit > '7') return std::nullopt;
        number = number << 3 | static_cast<std::uint64_t>(digit - '0'); // a field has at most 12 digits
    }
    return number;
}

/// Whether the checksum fits and all numbers are octal, except that of the size.
bool is_sound(std::string_view header) {
    const auto stated = octal_of(text_of(header, checksum_field), std::nullopt);
    if (!stated) return false;
    std::uint64_t sum = checksum_field.size * ' ';
    for (const char each : header.substr(0, checksum_field.begin)) sum += static_cast<unsigned char>(each);
    for (const char each : header.substr(checksum_field.begin + checksum_field.size))
        sum += static_cast<unsigned char>(each);
    return sum == *stated && std::ranges::all_of(other_numbers, [header](Field field) {
               return octal_of(text_of(header, field), 0).has_value();
           });
}

/// The path that a pax header states: empty if it states none. Nothing if it states more than is plain.
std::optional<std::string_view> path_in(std::string_view records) {
    std::string_view path;
    while (!records.empty()) {
        std::size_t length = 0, at = 0; // "27 mtime=1700000000.123456\n", where 27 counts everything
        for (; at < records.size() && at < 6 && records[at] >= '0' && records[at] <= '9'; ++at)
            length = length * 10 + static_cast<std::size_t>(records[at] - '0');
        if (at == 0 || at >= length || length > records.size() || records[at] != ' ' || records[length - 1] != '\n')
            return std::nullopt;
        const std::string_view record = records.substr(at + 1, length - at - 2);
        const std::size_t equals = record.find('=');
        if (equals == std::string_view::npos) return std::nullopt;
        const std::string_view key = record.substr(0, equals);
        if (key == "path") path = record.substr(equals + 1);
        if (key == "path" ? path.empty() : !is_harmless(key)) return std::nullopt;
        records.remove_prefix(length);
    }
    return path;
}

/// Walks over the headers of an archive.
class Walk {
  public:
    Walk(std::string_view archive, std::uint64_t begin) : archive_(archive), end_(begin) {}

    /// Where the next header begins that has not been read.
    [[nodiscard]] std::uint64_t end() const noexcept { return end_; }

    /// Reads the next header and those before it that only belong to it. False if one is not plain.
    bool read(std::vector<Member>& files) {
        std::uint64_t at = end_;
        std::string_view long_name;
        auto header = header_at(at);
        if (!header) return false;
        if (const char type = (*header)[type_at]; type == 'x' || type == 'L') {
            const auto size = octal_of(text_of(*header, size_field), std::nullopt);
            if (!size || *size > most_extension || !has(at + block_size, *size)) return false;
            const std::string_view content = archive_.substr(at + block_size, *size);
            // Some versions of tarfile read the padding, too.
            if (type == 'x' && !is_empty(archive_.substr(at + block_size + *size, padded(*size) - *size))) return false;
            const auto found = type == 'x' ? path_in(content) : content.substr(0, content.find('\0'));
            if (!found || (type == 'L' && found->empty())) return false;
            long_name = *found;
            at += block_size + padded(*size);
            header = header_at(at);
            if (!header) return false;
        }
        return read_file(*header, long_name, at, files);
    }

  private:
    static constexpr std::uint64_t padded(std::uint64_t size) noexcept {
        return (size + block_size - 1) / block_size * block_size;
    }

    [[nodiscard]] bool has(std::uint64_t at, std::uint64_t size) const noexcept {
        return at <= archive_.size() && padded(size) <= archive_.size() - at;
    }

    [[nodiscard]] std::optional<std::string_view> header_at(std::uint64_t at) const {
        if (!has(at, block_size)) return std::nullopt;
        const std::string_view header = archive_.substr(at, block_size);
        return is_sound(header) ? std::optional(header) : std::nullopt;
    }

    bool read_file(std::string_view header, std::string_view long_name, std::uint64_t at, std::vector<Member>& files) {
        const char type = header[type_at];
        const bool is_folder = type == '5';
        if (type != '0' && type != '\0' && !is_folder) return false;
        const std::string_view name = long_name.empty() ? text_of(header, name_field) : long_name;
        const std::string_view prefix = long_name.empty() ? text_of(header, prefix_field) : std::string_view();
        if (!prefix.empty() && header.substr(magic_at, posix_magic.size()) != posix_magic) return false;
        if (name.empty() || !is_plain(name) || !is_plain(prefix)) return false;
        // Old archives mark folders so.
        if (!is_folder && (name.ends_with('/') || text_of(header, name_field).ends_with('/'))) return false;
        const auto size = octal_of(text_of(header, size_field), std::nullopt);
        const std::uint64_t begin = at + block_size;
        if (!size || (is_folder ? *size != 0 : !has(begin, *size))) return false;
        if (!is_folder) files.push_back({name, prefix, end_, begin, *size});
        end_ = begin + padded(*size);
        return true;
    }

    std::string_view archive_;
    std::uint64_t end_;
};

} // namespace

Members scan(Bytes archive, std::uint64_t begin, std::size_t most) {
    Members found;
    Walk walk({reinterpret_cast<const char*>(archive.data()), archive.size()}, begin);
    while (found.files.size() < most && walk.read(found.files)) {}
    found.end = walk.end();
    return found;
}

} // namespace headrace::tar
