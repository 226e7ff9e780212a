#include "core/protobuf/record/scan.hpp"

#include <algorithm>

#include "core/protobuf/record/decode.hpp"

namespace headrace::sagemaker {

void Scanner::add(const Spans& spans) {
    for (std::size_t i = 0; i < spans.payloads.size(); ++i) {
        spans.check(i);
        const Bytes payload = reading_of(spans, i);
        if (is_record(payload)) {
            record(payload);
            ++records_;
        } else {
            ++rejected_;
        }
    }
}

void Scanner::record(Bytes payload) {
    std::size_t used = 0;
    const auto tensor_of = [&](std::size_t facts) -> Tensor& { // The last of several entries with one key wins.
        const std::size_t before = slots_[facts];
        if (before < used && found_[before].facts == facts) return found_[before].tensor;
        if (used == found_.size()) found_.emplace_back();
        found_[used].facts = facts;
        slots_[facts] = used;
        return found_[used++].tensor;
    };
    const auto on_entry = [&](Place place, Bytes bytes, std::uint64_t offset) {
        read_entry(bytes, offset, entry_);
        Tensor& tensor = tensor_of(facts_of(place, entry_.key));
        tensor.clear();
        for (const auto& [value, at] : entry_.values) merge_value(value, at, tensor);
    };
    std::array<bool, 6> strings{};
    walk(payload, on_entry, [&](Place place, Bytes) { strings[static_cast<std::size_t>(place)] = true; });
    for (std::size_t k = 0; k < used; ++k) note(keys_[found_[k].facts], found_[k].tensor);
    for (const Place place : {Place::uid, Place::metadata, Place::configuration})
        if (strings[static_cast<std::size_t>(place)]) ++keys_[facts_of(place, {})].records;
}

void Scanner::note(KeyFacts& facts, const Tensor& tensor) {
    ++facts.held[static_cast<std::size_t>(tensor.kind)];
    if (tensor.kind == Kind::none) return;
    ++facts.records;
    const std::uint64_t count = count_values(tensor);
    const std::uint64_t keys = count_varints(tensor.keys);
    const bool shaped = read_shape(tensor, shape_);
    if (shaped) note_shape(facts);
    if (keys != 0) {
        ++facts.sparse;
        facts.sound = facts.sound && keys == count && shaped;
    } else if (shaped && count == 0 && elements(shape_) != 0) {
        ++facts.shape_only;
    } else {
        facts.fewest = std::min(facts.fewest, count);
        facts.most = std::max(facts.most, count);
        facts.sound = facts.sound && (!shaped || elements(shape_) == count);
    }
    if (tensor.kind != Kind::bytes) return;
    for (const Bytes value : tensor.values) {
        ++facts.texts;
        facts.plain_text = facts.plain_text && example::is_plain_text(value);
        ++facts.images[static_cast<std::size_t>(example::recognise_image(value))];
    }
}

void Scanner::note_shape(KeyFacts& facts) {
    const std::uint64_t size = elements(shape_);
    facts.narrowest = std::min(facts.narrowest, size);
    facts.widest = std::max(facts.widest, size);
    if (facts.shaped++ == 0) {
        facts.shortest = facts.longest = shape_;
        return;
    }
    facts.same_rank = facts.same_rank && shape_.size() == facts.shortest.size();
    if (!facts.same_rank) return;
    for (std::size_t axis = 0; axis < shape_.size(); ++axis) {
        facts.shortest[axis] = std::min(facts.shortest[axis], shape_[axis]);
        facts.longest[axis] = std::max(facts.longest[axis], shape_[axis]);
    }
}

std::size_t Scanner::facts_of(Place place, Bytes key) {
    std::string name(1, static_cast<char>(place));
    name.append(reinterpret_cast<const char*>(key.data()), key.size());
    const auto [found, is_new] = index_.try_emplace(name, keys_.size());
    if (is_new) {
        slots_.push_back(0);
        keys_.emplace_back();
        keys_.back().place = place;
        keys_.back().key = name.substr(1);
    }
    return found->second;
}

} // namespace headrace::sagemaker
