#include "core/base/mapped_files.hpp"

#include "core/base/spans.hpp"
#include "core/base/thread_team.hpp"

#include "check.hpp"

#if defined(__unix__) || defined(__APPLE__)

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace headrace;
using namespace headrace::testing;

namespace {

const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

/// A file of `pages` pages of ones, or of zeros.
class File {
  public:
    explicit File(std::size_t pages, char content = 1) : content_(pages * page, content) {
        fd = mkstemp(name);
        check(fd >= 0);
        write();
    }
    ~File() {
        close(fd);
        unlink(name);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    void write() const {
        check(pwrite(fd, content_.data(), content_.size(), 0) == static_cast<ssize_t>(content_.size()));
    }
    void cut(std::size_t size) const { check(ftruncate(fd, static_cast<off_t>(size)) == 0); }
    [[nodiscard]] std::size_t size() const { return content_.size(); }
    [[nodiscard]] FileId id() const {
        struct stat status{};
        check(fstat(fd, &status) == 0);
        return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino)};
    }

    char name[32] = "/tmp/headrace-mapped-XXXXXX";
    int fd = -1;

  private:
    std::vector<char> content_;
};

/// Reads every byte.
std::size_t sum(const MappedFile& file, std::size_t from = 0) {
    std::size_t total = 0;
    for (std::size_t i = from; i < file.size(); ++i) total += static_cast<std::size_t>(file.data()[i]);
    return total;
}

void lost_pages_read_as_zeros() {
    const File file(4);
    const MappedFile mapped(file.fd, file.size(), file.id(), "name", file.name);
    for (const std::size_t size : {2 * page, page, std::size_t{0}}) {
        file.cut(size);
        GuardedRead guard;
        check(sum(mapped, size) == 0);
        check(guard.lost() == &mapped);
    }
    file.write(); // Restores the file. No trace of the loss may remain.
    GuardedRead guard;
    guard.touch(mapped.data());
    check(sum(mapped) == file.size());
    check(guard.lost() == nullptr);
}

void zeros_in_the_last_page_are_noticed() {
    const File file(4);
    const MappedFile mapped(file.fd, file.size(), file.id(), "name", file.name);
    for (const std::size_t size : {4 * page - 1, 2 * page + 100}) {
        file.cut(size);
        GuardedRead guard;
        check(mapped.data()[size] == std::byte{0});
        check(guard.lost() == nullptr); // the guard does not know of this file yet
        guard.touch(&mapped);
        check(guard.lost() == &mapped);
    }
    file.write();
    GuardedRead guard;
    guard.touch(&mapped);
    check(guard.lost() == nullptr);
}

void bytes_behind_stretches_are_enough() {
    const File first(4), second(4);
    const MappedFile one(first.fd, first.size(), first.id(), "one", first.name);
    const MappedFile other(second.fd, second.size(), second.id(), "other", second.name);
    const MappedFile* const files[] = {&one, &other};
    const std::span<const std::byte> stretches[] = {{one.data() + 10, 100}, {other.data() + 2 * page - 50, 200}};
    const auto lost = [&] {
        GuardedRead guard;
        guard.touch_stretches(files, stretches);
        return guard.lost();
    };
    check(lost() == nullptr);
    second.cut(3 * page); // behind all that is read
    check(lost() == nullptr);
    for (const std::size_t size : {2 * page + 100, 2 * page + 1, 2 * page, 2 * page - 20, page, std::size_t{0}}) {
        second.cut(size);
        check(lost() == &other);
    }
    second.write();
    check(lost() == nullptr);
    first.cut(50);
    check(lost() == &one);
    GuardedRead guard;
    guard.touch_stretches({}, std::span(stretches).last(1));
    guard.touch_stretches(files, std::span(stretches).first(1)); // the second time, the files themselves
    check(guard.lost() == &one);
}

void bytes_behind_stretches_may_be_zero() {
    const File file(2, 0);
    const MappedFile mapped(file.fd, file.size(), file.id(), "name", file.name);
    const MappedFile* const files[] = {&mapped};
    const std::span<const std::byte> stretches[] = {{mapped.data(), 100}};
    GuardedRead guard;
    guard.touch_stretches(files, stretches);
    check(guard.lost() == nullptr);
    file.cut(page);
    check(guard.lost() == &mapped);
}

void adjacent_stretches_prove_each_other() {
    const File first(4), second(1);
    const MappedFile one(first.fd, first.size(), first.id(), "one", first.name);
    const MappedFile other(second.fd, second.size(), second.id(), "other", second.name);
    const MappedFile* const files[] = {&one, &other};
    // Records with 16 bytes between them; the third ends on another page than the fourth begins.
    const std::span<const std::byte> stretches[] = {
        {one.data() + 10, 100},      {one.data() + 126, 1000},         {one.data() + 1142, page},
        {one.data() + 3 * page, 50}, {other.data() + page - 204, 200}, // up to the end of its file
    };
    const auto lost = [&](std::size_t from, std::size_t count) {
        GuardedRead guard;
        guard.touch_stretches(files, std::span(stretches).subspan(from, count));
        return guard.lost();
    };
    check(lost(0, 5) == nullptr);
    first.cut(page + 1150); // behind the third
    check(lost(0, 3) == nullptr);
    check(lost(0, 4) == &one);
    for (const std::size_t size : {page + 1141, page, std::size_t{1141}, std::size_t{500}, std::size_t{0}}) {
        first.cut(size);
        check(lost(0, 3) == &one);
        check(lost(0, 4) == &one);
        check(lost(0, 5) == &one);
        if (size < 1126) check(lost(0, 2) == &one);
    }
    first.write();
    check(lost(0, 5) == nullptr);
    second.cut(page - 205);
    check(lost(0, 4) == nullptr);
    check(lost(3, 2) == &other);
}

void intact_stretches_are_not_looked_at() {
    const File file(3);
    const MappedFile mapped(file.fd, file.size(), file.id(), "name", file.name);
    const MappedFile* const files[] = {&mapped};
    const std::span<const std::byte> stretches[] = {{mapped.data() + 10, 100}, {mapped.data() + page, 100}};
    file.cut(page + 50);
    const auto lost = [&](bool is_intact) {
        GuardedRead guard;
        check(!guard.looks_behind(stretches) && !guard.looks_behind({}));
        guard.touch_stretches(files, stretches);
        check(guard.looks_behind(stretches) && !guard.looks_behind(std::span(stretches).first(1)) &&
              !guard.looks_behind(std::span(stretches).last(1)) && !guard.looks_behind({}));
        if (is_intact) guard.note_intact();
        return guard.lost();
    };
    check(lost(true) == nullptr);
    check(lost(false) == &mapped);
}

void a_reader_notes_intact_payloads() {
    const File file(3);
    const MappedFile mapped(file.fd, file.size(), file.id(), "name", file.name);
    const MappedFile* const files[] = {&mapped};
    Spans spans;
    spans.payloads = {{mapped.data() + 10, 100}, {mapped.data() + page, 100}, {mapped.data() + 2 * page, 60}};
    const auto is_noted = [&](std::size_t left, std::size_t cut, std::size_t before) {
        GuardedRead guard;
        guard.touch_stretches(files, spans.payloads);
        PayloadReader reader(spans);
        for (std::size_t i = 0; i < spans.payloads.size(); ++i) {
            spans.seal = Seal::none; // No checksum is right.
            reader.read(i);
            spans.seal = Seal::tfrecord;
            if (i == before) file.cut(cut);
            if (i < left) reader.leave();
        }
        reader.note_intact();
        file.cut(page); // which is not seen where all was intact
        const bool is_kept = guard.lost() == nullptr;
        file.write();
        return is_kept;
    };
    check(is_noted(3, 3 * page, 0));
    check(!is_noted(2, 3 * page, 0));      // the last one was not left
    check(!is_noted(3, 2 * page + 50, 2)); // truncated while the last one is read
    check(is_noted(3, 2 * page + 64, 2));  // behind its seal
    check(!is_noted(3, page + 100, 1));    // the seal of the second one
    check(!is_noted(0, 3 * page, 0));
}

void without_stretches_the_files_count() {
    const File file(2);
    const MappedFile mapped(file.fd, file.size(), file.id(), "name", file.name);
    const MappedFile* const files[] = {&mapped};
    file.cut(page);
    GuardedRead guard;
    guard.touch_stretches(files, {});
    check(guard.lost(GuardedRead::Look::pages) == nullptr);
    check(guard.lost() == &mapped);
}

void files_of_zeros() {
    const File file(3, 0);
    const MappedFile mapped(file.fd, file.size(), file.id(), "name", file.name);
    {
        GuardedRead guard;
        guard.touch(&mapped);
        check(guard.lost() == nullptr);
    }
    file.cut(page + 7);
    GuardedRead guard;
    guard.touch(&mapped);
    check(guard.lost() == &mapped);
}

void guards_within_guards() {
    const File file(2);
    const MappedFile mapped(file.fd, file.size(), file.id(), "name", file.name);
    file.cut(0);
    GuardedRead outer;
    outer.touch(&mapped);
    {
        GuardedRead inner;
        check(GuardedRead::current() == &inner);
        check(sum(mapped) == 0);
        check(inner.lost() == &mapped);
    }
    check(GuardedRead::current() == &outer);
    check(outer.lost() == &mapped);
}

void helpers_read_for_the_caller() {
    const File file(64);
    const MappedFile mapped(file.fd, file.size(), file.id(), "name", file.name);
    file.cut(page);
    GuardedRead guard;
    std::atomic<std::size_t> total{0};
    ThreadTeam::shared().run(64, 1, 4, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin * page; i < end * page; ++i) total += static_cast<std::size_t>(mapped.data()[i]);
    });
    check(total == page);
    check(guard.lost() == &mapped);
}

void many_threads() {
    const File file(64);
    const MappedFile mapped(file.fd, file.size(), file.id(), "name", file.name);
    file.cut(10 * page + 5);
    std::vector<std::thread> threads;
    for (std::size_t n = 0; n < 8; ++n)
        threads.emplace_back([&mapped, n] {
            for (std::size_t round = 0; round < 200; ++round) {
                GuardedRead guard;
                guard.touch(&mapped);
                const std::size_t from = (11 + (n * 7 + round) % 53) * page;
                check(mapped.data()[from] == std::byte{0});
                check(guard.lost() == &mapped);
            }
        });
    for (std::thread& thread : threads) thread.join();
}

void addresses() {
    const File file(2);
    const std::byte other{};
    const std::byte* data = nullptr;
    {
        const MappedFile mapped(file.fd, file.size() - 5, file.id(), "name", file.name);
        data = mapped.data();
        check(MappedFile::find(data).file == &mapped);
        check(MappedFile::find(data + mapped.size() - 1).file == &mapped);
        check(MappedFile::find(data + mapped.size()).file != &mapped);
        check(MappedFile::find(&other).file == nullptr);
    }
    check(MappedFile::find(data).file == nullptr);
}

/// The flags that Linux shows for the mapping of an address (see proc(5), VmFlags), or nothing.
[[nodiscard]] std::string mapping_flags(const std::byte* at) {
    std::ifstream smaps("/proc/self/smaps");
    bool is_here = false;
    for (std::string line; std::getline(smaps, line);) {
        std::uintptr_t begin = 0, end = 0;
        char dash = 0;
        std::istringstream head(line);
        if (head >> std::hex >> begin >> dash >> end && dash == '-')
            is_here = begin <= reinterpret_cast<std::uintptr_t>(at) && reinterpret_cast<std::uintptr_t>(at) < end;
        if (is_here && line.starts_with("VmFlags:")) return line + " ";
    }
    return {};
}

/// Whether Linux shows a flag for a mapped file, or `otherwise` if it shows none.
[[nodiscard]] bool has_flag(const MappedFile& file, const char* flag, bool otherwise) {
    const std::string flags = mapping_flags(file.data());
    if (flags.empty()) std::puts("not checked: the system does not show the flags of mappings");
    return flags.empty() ? otherwise : flags.find(flag) != std::string::npos;
}

void the_system_is_told_what_will_be_read() {
    const File file(4);
    const MappedFile mapped(file.fd, file.size(), file.id(), "name", file.name);
    check(!has_flag(mapped, " hg ", false) && !has_flag(mapped, " rr ", false));
    for (int turn = 0; turn < 2; ++turn) {
        mapped.expect_all();
        mapped.expect_all();
        check(has_flag(mapped, " hg ", true));
        mapped.expect_scattered_reads(true);
        check(!has_flag(mapped, " hg ", false) && has_flag(mapped, " rr ", true));
        mapped.expect_scattered_reads(false);
        check(!has_flag(mapped, " rr ", false));
    }
    check(sum(mapped) == file.size());
}

void small_files_of_a_set_are_read_whole() {
    AdjacentPlaces places;
    const auto maps_for_large_pages = [&](std::size_t pages, AdjacentPlaces* among) {
        const File file(pages);
        const MappedFile mapped(file.fd, file.size(), file.id(), "name", file.name, false, among);
        check(sum(mapped) == file.size());
        return has_flag(mapped, " hg ", pages <= 2 && among != nullptr && among->reads_whole(file.size()));
    };
    check(!maps_for_large_pages(1, &places));
    places.read_whole(2 * page);
    check(places.reads_whole(2 * page) && !places.reads_whole(2 * page + 1));
    check(maps_for_large_pages(2, &places));
    check(!maps_for_large_pages(3, &places));
    check(!maps_for_large_pages(2, nullptr));
    places.read_whole(0);
    check(!maps_for_large_pages(1, &places));
}

void files_of_a_set_lie_behind_each_other() {
#ifdef __linux__ // Elsewhere it is only a wish.
    AdjacentPlaces places, others;
    const File first(4), second(3);
    const auto map = [](const File& file, std::size_t size, AdjacentPlaces* among) {
        return std::make_unique<MappedFile>(file.fd, size, file.id(), "name", file.name, false, among);
    };
    const auto one = map(first, first.size() - 1, &places);
    const auto alone = map(first, page, nullptr), apart = map(first, page, &others);
    const auto other = map(second, second.size(), &places);
    check(other->data() == one->data() + 4 * page);
    {
        const File large(1024); // also when its place has been used, and after a file in another place
        const auto elsewhere = map(large, large.size(), &places);
        const auto third = map(first, 1, &places);
        check(third->data() == other->data() + 3 * page);
        check(sum(*elsewhere) == large.size());
        void* const taken = mmap(const_cast<std::byte*>(third->data() + page), page, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        check(taken == third->data() + page);
        const auto fourth = map(first, first.size(), &places);
        check(fourth->data() != taken && sum(*fourth) == first.size());
        check(munmap(taken, page) == 0);
    }
    check(sum(*one) + 1 == first.size() && sum(*other) == second.size());
    check(sum(*alone) == page && sum(*apart) == page);
#endif
    check(MappedFile::whole_pages(0) == 0);
    check(MappedFile::whole_pages(1) == page);
    check(MappedFile::whole_pages(page) == page);
    check(MappedFile::whole_pages(page + 1) == 2 * page);
}

void without_a_guard_the_process_ends() {
    const File file(2);
    const MappedFile mapped(file.fd, file.size(), file.id(), "name", file.name);
    file.cut(0);
    const pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        _exit(static_cast<int>(sum(mapped)));
    }
    int status = 0;
    check(waitpid(child, &status, 0) == child);
    check(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

} // namespace

int main() {
    lost_pages_read_as_zeros();
    zeros_in_the_last_page_are_noticed();
    bytes_behind_stretches_are_enough();
    bytes_behind_stretches_may_be_zero();
    adjacent_stretches_prove_each_other();
    intact_stretches_are_not_looked_at();
    a_reader_notes_intact_payloads();
    without_stretches_the_files_count();
    files_of_zeros();
    guards_within_guards();
    helpers_read_for_the_caller();
    many_threads();
    addresses();
    the_system_is_told_what_will_be_read();
    small_files_of_a_set_are_read_whole();
    files_of_a_set_lie_behind_each_other();
    without_a_guard_the_process_ends();
}

#else

int main() {}

#endif
