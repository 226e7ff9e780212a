#include "core/engines/jpeg/soundness.hpp"

#include "check.hpp"
#include "engines/jpeg/pictures.hpp"

using namespace headrace;
using namespace headrace::jpeg;
using namespace headrace::testing;

namespace {

/// Every cut-off file is damaged, also with a marker for its end.
void test_cut_files() {
    for (const Picture& picture : pictures) {
        const std::vector<std::byte> file = from_hex(picture.digits);
        check(soundness(file) == Soundness::sound);
        for (std::size_t size = 0; size + 2 < file.size(); ++size) {
            std::vector<std::byte> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
            check(soundness(cut) == Soundness::damaged, "cut off");
            cut.push_back(std::byte{0xFF});
            cut.push_back(std::byte{0xD9});
            check(soundness(cut) != Soundness::sound, "ended early");
        }
    }
}

void test_other_processes() {
    std::vector<std::byte> file = from_hex(pictures[1].digits);
    for (std::size_t at = 0; at + 1 < file.size(); ++at) {
        if (file[at] != std::byte{0xFF} || file[at + 1] != std::byte{0xC0}) continue;
        file[at + 1] = std::byte{0xC9}; // arithmetic codes
        check(soundness(file) == Soundness::unknown);
        return;
    }
}

} // namespace

int main() {
    test_cut_files();
    test_other_processes();
}
