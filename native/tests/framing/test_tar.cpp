#include "core/framing/tar.hpp"

#include <cstdio>
#include <cstring>

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

constexpr std::size_t block = tar::block_size;

struct Header {
    std::string name;
    std::size_t size = 0;
    char type = '0';
    std::string prefix = {};
    std::string magic = std::string("ustar\0"
                                    "00",
                                    8);
    std::string mode = "0000644";
};

void put(std::string& header, std::size_t at, std::string_view text) { header.replace(at, text.size(), text); }

std::string octal(std::size_t number, int digits) {
    char text[24];
    (void)std::snprintf(text, sizeof text, "%0*zo", digits, number);
    return text;
}

void seal(std::string& header) {
    put(header, 148, "        ");
    std::size_t sum = 0;
    for (const char each : header) sum += static_cast<unsigned char>(each);
    put(header, 148, octal(sum, 6) + std::string("\0 ", 2));
}

std::string header_of(const Header& what) {
    std::string header(block, '\0');
    put(header, 0, what.name);
    put(header, 100, what.mode);
    put(header, 108, "0000000");
    put(header, 116, "0000000");
    put(header, 124, octal(what.size, 11));
    put(header, 136, octal(1'700'000'000, 11));
    header[156] = what.type;
    put(header, 257, what.magic);
    put(header, 345, what.prefix);
    seal(header);
    return header;
}

std::string padded(std::string content) {
    content.resize((content.size() + block - 1) / block * block);
    return content;
}

std::string file(const std::string& name, const std::string& content) {
    return header_of({.name = name, .size = content.size()}) + padded(content);
}

std::string pax(const std::string& records) {
    return header_of({.name = "pax", .size = records.size(), .type = 'x'}) + padded(records);
}

tar::Members scan(const std::string& archive, std::uint64_t begin = 0, std::size_t most = 100) {
    return tar::scan(bytes_of(std::string_view(archive)), begin, most);
}

/// Whether a scan leaves this header, after a plain file, to others.
bool is_left(const std::string& header) {
    const std::string archive = file("a.txt", "x") + header + std::string(4 * block, '\0');
    const tar::Members found = scan(archive);
    return found.files.size() == 1 && found.end == 2 * block;
}

void reads_plain_members() {
    const std::string end(2 * block, '\0');
    const std::string archive = header_of({.name = "folder/", .type = '5'}) + file("folder/0.txt", "abc") +
                                file("folder/1.txt", std::string(block, 'y')) + file("empty", "") + end;
    const tar::Members found = scan(archive);
    check(found.files.size() == 3 && found.end == archive.size() - end.size());
    check(found.files[0].name == "folder/0.txt" && found.files[0].header == block && found.files[0].begin == 2 * block);
    check(found.files[0].size == 3 && found.files[1].size == block && found.files[2].size == 0);
    check(scan(archive, 0, 1).files.size() == 1 && scan(archive, 0, 1).end == 3 * block);
    check(scan(archive, 3 * block, 100).files.front().name == "folder/1.txt");
    check(scan(archive, archive.size() + 7).files.empty() && scan("").end == 0);
    check(scan(header_of({.name = "old", .type = '\0', .magic = ""}) + end).files.size() == 1);
}

void reads_long_names() {
    const std::string name = std::string(150, 'n') + ".txt";
    const std::string gnu = header_of({.name = "././@LongLink", .size = name.size() + 1, .type = 'L'}) +
                            padded(name + '\0') + file(name.substr(0, 100), "x");
    check(scan(gnu).files.at(0).name == name && scan(gnu).files.at(0).header == 0);
    check(scan(gnu).files.at(0).begin == 3 * block);
    const std::string posix = pax("30 mtime=1700000000.123456789\n13 path=b.txt\n23 SCHILY.dev=12345678\n");
    check(scan(posix + file("b", "x")).files.empty()); // the second length is wrong
    check(scan(pax("30 mtime=1700000000.123456789\n14 path=b.txt\n") + file("b", "x")).files.at(0).name == "b.txt");
    const std::string apart = header_of({.name = "b.txt", .size = 0, .prefix = "some/folder"});
    check(scan(apart).files.at(0).name == "b.txt" && scan(apart).files.at(0).prefix == "some/folder");
}

void leaves_what_is_not_plain() {
    check(is_left(header_of({.name = "link", .type = '2'})) && is_left(header_of({.name = "hole", .type = 'S'})));
    check(is_left(header_of({.name = "caf\xc3\xa9"})) && is_left(header_of({.name = ""})));
    check(is_left(header_of({.name = "x", .size = 5 * block}))); // more than there is
    check(is_left(header_of({.name = "x/"})) && is_left(header_of({.name = "x", .mode = "\x80\x01"})));
    check(is_left(header_of({.name = "x", .prefix = "p", .magic = std::string("ustar  \0", 8)})));
    check(is_left(pax("11 size=12\n") + file("b", "x")) && is_left(pax("99 path=b\n") + file("b", "x")));
    check(is_left(pax("9 path=\n") + file("b", "x")) && is_left(pax("x path=b\n") + file("b", "x")));
    check(is_left(header_of({.name = "x", .size = 1 << 20, .type = 'x'})));
    std::string followed = pax("14 path=b.txt\n");
    followed[block + 14] = 'x'; // in the padding
    check(is_left(followed + file("b", "x")));
    std::string sizes = header_of({.name = "x"}), sums = sizes;
    put(sizes, 124, std::string(12, ' '));
    seal(sizes);
    put(sums, 0, "y");
    check(is_left(sizes) && is_left(sums) && is_left(std::string(block, '\0')));
}

void survives_damage() {
    const std::string archive = pax("14 path=b.txt\n") + file("b", "x") + file("c", "y");
    for (std::size_t size = 0; size <= archive.size(); ++size) check(scan(archive.substr(0, size)).end <= size);
    for (std::size_t at = 0; at < archive.size(); ++at) {
        std::string changed = archive;
        changed[at] = static_cast<char>(changed[at] ^ 0x55);
        const tar::Members found = scan(changed);
        check(found.end <= archive.size());
        for (const tar::Member& each : found.files) check(each.begin + each.size <= archive.size());
    }
}

} // namespace

int main() {
    reads_plain_members();
    reads_long_names();
    leaves_what_is_not_plain();
    survives_damage();
}
