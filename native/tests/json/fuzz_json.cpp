// Decodes arbitrary lines. Columns must have as many values as their offsets say, texts must be UTF-8, and lines that
// are plain together must be plain one by one, with the same values.
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/json/decode.hpp"
#include "core/text/utf8.hpp"

using namespace headrace;

namespace {

void require(bool good) {
    if (!good) std::abort();
}

std::vector<json::Spec> specs() {
    std::vector<json::Spec> out(6);
    const json::Kind kinds[] = {json::Kind::int64,   json::Kind::uint64, json::Kind::float64,
                                json::Kind::boolean, json::Kind::text,   json::Kind::text};
    for (std::size_t k = 0; k < out.size(); ++k) {
        out[k].path = {std::string(1, "iuxbts"[k])};
        out[k].kind = kinds[k];
        out[k].depth = k == 4 ? 0 : 1;
        out[k].may_miss = k != 4;
        if (kinds[k] == json::Kind::uint64) out[k].most = UINT64_MAX;
    }
    out[4].kind = json::Kind::float64;
    out[4].may_miss = true;
    json::Spec deep = out[0];
    deep.path = {"p", "m"};
    deep.depth = 2;
    out.push_back(deep);
    for (const char* const key : {"a", "b"}) { // of objects in a list
        json::Spec item = out[key[0] == 'a' ? 0 : 5];
        item.path = {"o", key};
        item.lists = {0};
        out.push_back(item);
    }
    return out;
}

std::size_t offset_at(const json::Column& column, std::size_t i) {
    return static_cast<std::size_t>(load_le<std::int64_t>(column.offsets[0].places.data() + i * sizeof(std::int64_t)));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const auto pool = std::make_shared<Pool>(std::size_t{1} << 20);
    static const json::Decoder decoder(specs());
    std::vector<Bytes> lines;
    const Bytes text = std::as_bytes(std::span(data, size));
    for (std::size_t at = 0; at < size;) {
        const auto* const found = static_cast<const std::uint8_t*>(std::memchr(data + at, '\n', size - at));
        const std::size_t end = found == nullptr ? size : static_cast<std::size_t>(found - data) + 1;
        lines.push_back(text.subspan(at, end - at));
        at = end;
    }
    const auto together = decoder.decode(lines, pool);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const auto alone = decoder.decode({lines[i]}, pool);
        require(alone || !together);
        if (!alone || !together) continue;
        for (std::size_t k = 0; k < alone->size(); ++k) {
            const json::Column &one = (*alone)[k], &all = (*together)[k];
            if (decoder.specs()[k].depth == 0) {
                require(std::memcmp(one.numbers.data(), all.numbers.data() + i * 8, 8) == 0);
                continue;
            }
            const std::size_t begin = offset_at(all, i), end = offset_at(all, i + 1);
            if (decoder.specs()[k].depth == 2) {
                require(begin <= end && end < all.offsets[1].count && end - begin + 1 == one.offsets[1].count);
                continue;
            }
            require(begin <= end && end <= all.values && end - begin == one.values && offset_at(one, 1) == one.values);
            for (std::size_t v = 0; v < one.values; ++v) {
                if (decoder.specs()[k].kind == json::Kind::text) {
                    const Bytes value = one.texts.view().at(v), same = all.texts.view().at(begin + v);
                    require(is_utf8(value) && value.size() == same.size() &&
                            std::equal(value.begin(), value.end(), same.begin()));
                } else {
                    const std::size_t width = decoder.specs()[k].kind == json::Kind::boolean ? 1 : 8;
                    require(std::memcmp(one.numbers.data() + v * width, all.numbers.data() + (begin + v) * width,
                                        width) == 0);
                }
            }
        }
    }
    return 0;
}
