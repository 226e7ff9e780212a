#include "core/protobuf/record/scan.hpp"

#include <algorithm>
#include <exception>
#include <thread>

#include "core/base/mapped_files.hpp"
#include "core/protobuf/record/decode.hpp"
#include "core/protobuf/record/rows.hpp"

namespace headrace::sagemaker {

void Scanner::add(const Spans& spans) {
    for (std::size_t i = 0; i < spans.payloads.size(); ++i) {
        spans.check(i);
        const Bytes payload = reading_of(spans, i);
        if (is_record(payload)) {
            record(payload);
            ++records_;
        } else {
            ++strangers_;
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

namespace {

template <typename T> void append(std::vector<T>& to, const std::vector<T>& from) {
    to.insert(to.end(), from.begin(), from.end());
}

/// `from` behind the first `used` bytes of `to`, which has room.
void copy_behind(Pool::Block& to, std::size_t used, const Pool::Block& from, std::size_t size) {
    if (size != 0) std::memcpy(to.data() + used, from.data(), size);
}

/// Room in the first part for the numbers (and keys) of all.
void make_room(const Spec& spec, std::vector<std::vector<Column>>& parts, std::size_t k,
               const std::shared_ptr<Pool>& pool) {
    std::size_t count = 0;
    for (const std::vector<Column>& part : parts) count += part[k].number_count;
    Column& first = parts[0][k];
    const std::size_t item = size_of(spec.kind), key_item = size_of_key(first);
    if (first.numbers.capacity() < count * item) grow(first.numbers, count * item, first.number_count * item, pool);
    if (spec.layout != Layout::sparse || first.keys.capacity() >= count * key_item) return;
    grow(first.keys, count * key_item, first.number_count * key_item, pool);
}

/// The rows from `row` on, behind those in `to`.
void add_part(const Spec& spec, Column& to, const Column& part, std::size_t row) {
    const std::size_t item = size_of(spec.kind);
    if (spec.layout == Layout::fixed && item != 0) {
        const std::size_t before = row * static_cast<std::size_t>(spec.count);
        copy_behind(to.numbers, before * item, part.numbers, part.number_count * item);
    } else {
        copy_behind(to.numbers, to.number_count * item, part.numbers, part.number_count * item);
        if (spec.layout == Layout::sparse)
            copy_behind(to.keys, to.number_count * size_of_key(to), part.keys, part.number_count * size_of_key(to));
        to.number_count += part.number_count;
    }
    if (!part.offsets.empty()) {
        const std::int64_t before = to.offsets.back();
        std::for_each(part.offsets.begin() + 1, part.offsets.end(),
                      [&](std::int64_t end) { to.offsets.push_back(before + end); });
    }
    append(to.texts, part.texts);
    append(to.shapes, part.shapes);
    for (const std::int64_t absent : part.absent) to.absent.push_back(static_cast<std::int64_t>(row) + absent);
    to.width = std::max(to.width, part.width);
}

} // namespace

std::vector<std::size_t> cut_rows(std::span<const Bytes> payloads, std::size_t most, std::size_t least_bytes) {
    std::vector<std::size_t> cuts{0};
    if (most > 1) {
        std::size_t size = 0;
        for (const Bytes payload : payloads) size += payload.size();
        const std::size_t parts = std::min(most, size / std::max<std::size_t>(least_bytes, 1));
        std::size_t before = 0;
        for (std::size_t i = 0; i + 1 < payloads.size() && cuts.size() < parts; ++i) {
            before += payloads[i].size();
            if (before >= size / parts * cuts.size()) cuts.push_back(i + 1);
        }
    }
    cuts.push_back(payloads.size());
    return cuts;
}

void on_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
    std::vector<std::exception_ptr> failures(count);
    GuardedRead* const guard = GuardedRead::current();
    const auto run = [&](std::size_t k) noexcept {
        const GuardedRead::Helper reading(guard);
        try {
            work(k);
        } catch (...) {
            failures[k] = std::current_exception();
        }
    };
    std::vector<std::thread> others;
    others.reserve(count); // What is thrown below would leave threads that nobody waits for.
    for (std::size_t k = 1; k < count; ++k) {
        try {
            others.emplace_back(run, k);
        } catch (const std::exception&) { // No more threads are to be had, or no memory for one.
            run(k);
        }
    }
    if (count != 0) run(0);
    for (std::thread& other : others) other.join();
    for (const std::exception_ptr& failure : failures)
        if (failure) std::rethrow_exception(failure);
}

std::vector<Column> join_parts(const std::vector<Spec>& specs, std::vector<std::vector<Column>> parts,
                               std::span<const std::size_t> cuts, const std::shared_ptr<Pool>& pool) {
    for (std::size_t k = 0; parts.size() > 1 && k < specs.size(); ++k) {
        if (specs[k].layout == Layout::varying || specs[k].layout == Layout::sparse)
            make_room(specs[k], parts, k, pool);
        for (std::size_t part = 1; part < parts.size(); ++part)
            add_part(specs[k], parts[0][k], parts[part][k], cuts[part]);
    }
    return std::move(parts[0]);
}

} // namespace headrace::sagemaker
