#include "core/engines/png/decoder.hpp"

#include <string>

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

int main() {
    using namespace std::string_view_literals;
    const auto whole = "\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122\000\000\000\003\000\000\000"
                       "\002\010\000\000\000"
                       "\000\270\037\071\306\000\000\000\020\111\104\101\124\170\234\143\110\114\112\146\110\111\115"
                       "\003\000\011\106\002"
                       "\126\152\340\321\110\000\000\000\000\111\105\116\104\256\102\140\202"sv;
    const auto parts = // other chunks in between, pixels in two chunks
        "\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122\000\000\000\003\000\000\000\002\010\000\000"
        "\000"
        "\000\270\037\071\306\000\000\000\003\164\105\130\164\141\000\142\334\111\242\073\000\000\000\005\111\104\101"
        "\124"
        "\170\234\143\110\114\177\343\021\024\000\000\000\013\111\104\101\124\112\146\110\111\115\003\000\011\106\002"
        "\126"
        "\315\306\075\153\000\000\000\000\111\105\116\104\256\102\140\202"sv;
    const auto keyed = // a transparent grey
        "\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122\000\000\000\003\000\000\000\002\010\000\000"
        "\000"
        "\000\270\037\071\306\000\000\000\002\164\122\116\123\000\001\001\224\375\256\000\000\000\020\111\104\101\124"
        "\170"
        "\234\143\110\114\112\146\110\111\115\003\000\011\106\002\126\152\340\321\110\000\000\000\000\111\105\116\104"
        "\256"
        "\102\140\202"sv;
    PngReader reader(bytes_of(whole).first(PngReader::head_bytes), {2, 3, 1});
    std::string out(reader.image_bytes(), '?');
    auto* to = reinterpret_cast<std::byte*>(out.data());
    for (const auto file : {whole, parts, whole}) {
        out.assign(out.size(), '?');
        check(reader.may_hold(bytes_of(file)) && reader.read(bytes_of(file), to) && out == "abcdef");
    }
    check(!reader.read(bytes_of(keyed), to));
    check(!reader.read(bytes_of(whole.substr(1)), to) && !reader.read({}, to));
    for (std::size_t cut = PngReader::head_bytes; cut < whole.size(); ++cut) {
        const Fault found = fault_of([&] { (void)reader.read(bytes_of(whole.substr(0, cut)), to); }).fault;
        check(found == Fault::truncated);
    }
    for (const auto file : {whole, parts, keyed}) { // a changed bit in any chunk
        for (std::size_t at = PngReader::head_bytes; at < file.size(); ++at) {
            std::string bad(file);
            bad[at] = static_cast<char>(bad[at] ^ 0x20);
            if (file == keyed && at >= PngReader::head_bytes + 14) break; // the rest is left to the library
            (void)fault_of([&] { (void)reader.read(bytes_of(bad), to); });
        }
    }
    // Pixels behind another chunk: with "parts", the text is moved between both of their chunks.
    const std::size_t text = PngReader::head_bytes, first = text + 15, second = first + 17;
    const std::string apart = std::string(parts.substr(0, text)) + std::string(parts.substr(first, second - first)) +
                              std::string(parts.substr(text, first - text)) + std::string(parts.substr(second));
    check(fault_of([&] { (void)reader.read(bytes_of(apart), to); }).fault == Fault::structure);
    const std::string again = std::string(whole.substr(0, text)) + std::string(whole.substr(8, 25)) +
                              std::string(whole.substr(text)); // a second header
    check(!reader.read(bytes_of(again), to));
    PngReader large(bytes_of(whole).first(PngReader::head_bytes), {1 << 20, 1 << 20, 1});
    check(!large.may_hold(bytes_of(whole)) && large.may_hold(bytes_of(whole.substr(1))));
    check(fault_of([&] { PngReader(bytes_of(whole).first(33), {SIZE_MAX / 2, 9, 1}); }).fault == Fault::header);
}
