#include "core/protobuf/example/template.hpp"

#include <algorithm>

namespace headrace::example {
namespace {

// With more bytes than this around the values, comparing costs more than parsing.
constexpr std::size_t most_bytes = 4096;

} // namespace

bool WireTemplate::locate(Bytes payload, std::vector<List>& lists) const {
    if (payload.size() != size_ || size_ == 0) return false;
    const std::byte* expected = bytes_.data();
    for (const Stretch& same : same_) {
        if (std::memcmp(payload.data() + same.begin, expected, same.size) != 0) return false;
        expected += same.size;
    }
    for (std::size_t k = 0; k < values_.size(); ++k) {
        const Value& value = values_[k];
        lists[k].kind = value.kind;
        lists[k].piece = {payload.subspan(value.at.begin, value.at.size), payload.data()};
        lists[k].more.clear();
    }
    return true;
}

void WireTemplate::learn(Bytes payload, const std::vector<List>& lists, const std::vector<Part>& skipped) {
    size_ = 0;
    values_.assign(lists.size(), Value{});
    same_.clear();
    bytes_.clear();
    const auto stretch = [payload](Part part) {
        return Stretch{static_cast<std::size_t>(part.bytes.data() - payload.data()), part.bytes.size()};
    };
    std::vector<Stretch> holes;
    for (std::size_t k = 0; k < lists.size(); ++k) {
        if (!lists[k].more.empty()) return; // Several pieces are rare: parse them.
        if (lists[k].kind == Kind::none) continue;
        values_[k] = {lists[k].kind, stretch(lists[k].piece)};
        holes.push_back(values_[k].at);
    }
    for (const Part& part : skipped) holes.push_back(stretch(part));
    std::ranges::sort(holes, {}, &Stretch::begin);
    holes.push_back({payload.size(), 0});
    std::size_t at = 0;
    for (const Stretch& hole : holes) {
        if (hole.begin < at) return; // Impossible: values do not overlap.
        if (hole.begin - at > most_bytes - bytes_.size()) return;
        if (hole.begin > at) {
            same_.push_back({at, hole.begin - at});
            bytes_.insert(bytes_.end(), payload.begin() + static_cast<std::ptrdiff_t>(at),
                          payload.begin() + static_cast<std::ptrdiff_t>(hole.begin));
        }
        at = hole.begin + hole.size;
    }
    size_ = payload.size();
}

} // namespace headrace::example
