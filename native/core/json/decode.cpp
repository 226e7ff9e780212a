#include "core/json/decode.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/csv/number.hpp"
#include "core/json/reader.hpp"
#include "core/text/decimal.hpp"
#include "core/text/utf8.hpp"

namespace headrace::json {
namespace {

/// Numbers one after another in a block that grows.
class Numbers {
  public:
    Numbers() = default;
    Numbers(std::shared_ptr<Pool> pool, std::size_t size, std::size_t expected)
        : pool_(std::move(pool)),
          block_(pool_->take(std::max<std::size_t>(expected, 1) * size)),
          size_(size),
          room_(block_.capacity() / size) {}

    template <typename T> void add(T value) {
        if (count_ == room_) [[unlikely]]
            grow();
        std::memcpy(block_.data() + count_++ * sizeof value, &value, sizeof value);
    }

    [[nodiscard]] std::size_t count() const noexcept { return count_; }
    [[nodiscard]] Pool::Block finish() noexcept { return std::move(block_); }

  private:
    void grow() {
        Pool::Block larger = pool_->take((2 * count_ + 16) * size_);
        std::memcpy(larger.data(), block_.data(), count_ * size_);
        block_ = std::move(larger);
        room_ = block_.capacity() / size_;
    }

    std::shared_ptr<Pool> pool_;
    Pool::Block block_;
    std::size_t size_ = 1;
    std::size_t count_ = 0;
    std::size_t room_ = 0;
};

bool float_of(const Number& number, std::string_view text, double& value) {
    if (number.digits <= most_digits && round_decimal(number.mantissa, number.exponent, value)) {
        if (number.negative) value = -value;
    } else if (csv::read_float64(text, '.', value) != text.size()) {
        return false;
    }
    return std::isnormal(value) || (value == 0 && number.mantissa == 0 && number.digits <= most_digits);
}

} // namespace

/// The state of one call of decode.
class Run {
  public:
    Run(const Decoder& decoder, const std::shared_ptr<Pool>& pool, std::size_t lines, std::size_t bytes)
        : decoder_(decoder),
          orders_(decoder.objects_.size()),
          seen_objects_(decoder.objects_.size(), 0),
          seen_(decoder.specs_.size(), 0),
          numbers_(decoder.specs_.size()),
          texts_(decoder.specs_.size()),
          offsets_(decoder.specs_.size()) {
        constexpr std::size_t bytes_of_a_number = 8; // A guess: a few digits, a comma and a blank.
        const std::size_t share = bytes / std::max<std::size_t>(decoder.specs_.size(), 1);
        for (std::size_t k = 0; k < decoder.specs_.size(); ++k) {
            const Spec& spec = decoder.specs_[k];
            const std::size_t values = spec.depth != 0 ? share / bytes_of_a_number : lines;
            if (spec.kind == Kind::text) texts_[k] = StringsBuilder(pool, values, share);
            else numbers_[k] = Numbers(pool, spec.kind == Kind::boolean ? 1 : sizeof(std::int64_t), values);
            for (std::size_t level = 0; level < spec.depth; ++level) {
                offsets_[k].emplace_back(pool, sizeof(std::int64_t), (level == 0 ? lines : values) + 1);
                offsets_[k].back().add(std::int64_t{0});
            }
        }
    }

    /// Returns whether the line is plain.
    bool line(std::string_view text) {
        Reader reader(text.data(), text.data() + text.size());
        reader.skip_blanks_and_ends();
        if (!whole_object(reader, 0)) return false;
        reader.skip_blanks_and_ends();
        return reader.done();
    }

    std::optional<std::vector<Column>> take() {
        std::vector<Column> columns(decoder_.specs_.size());
        for (std::size_t k = 0; k < columns.size(); ++k) {
            Column& column = columns[k];
            column.values = count_of(k);
            if (decoder_.specs_[k].kind == Kind::text) {
                column.texts = texts_[k].finish();
                if (first_not_utf8(column.texts.view())) return std::nullopt;
            } else {
                column.numbers = numbers_[k].finish();
            }
            for (Numbers& offsets : offsets_[k]) {
                const std::size_t count = offsets.count();
                column.offsets.push_back({offsets.finish(), count});
            }
        }
        return columns;
    }

  private:
    using Member = Decoder::Member;

    static constexpr std::size_t most_spare = 64 << 10; ///< Bytes that are reserved for a text of unknown length.

    [[nodiscard]] std::size_t count_of(std::size_t k) const noexcept {
        return decoder_.specs_[k].kind == Kind::text ? texts_[k].count() : numbers_[k].count();
    }

    // The nesting of wanted objects and lists is that of the specs, whatever the lines hold.

    /// A line, or an object in a list, with what is missing in it.
    bool whole_object(Reader& reader, std::size_t number) { // NOLINT(misc-no-recursion): see above
        const std::size_t around = std::exchange(current_, ++objects_);
        const bool is_good = object(reader, number) && fill_missing(number);
        current_ = around;
        return is_good;
    }

    bool object(Reader& reader, std::size_t number) { // NOLINT(misc-no-recursion): see above
        if (!reader.take('{')) return false;
        reader.skip_blanks();
        if (reader.take('}')) return true;
        std::size_t position = 0;
        for (bool ended = false; !ended; ++position)
            if (!member(reader, number, position) || !reader.next('}', ended)) return false;
        return true;
    }

    /// A key and its value: the `position`-th of the object.
    bool member(Reader& reader, std::size_t object_number, std::size_t position) { // NOLINT(misc-no-recursion)
        std::string_view key;
        bool escaped = false;
        if (!reader.raw_text(key, escaped) || escaped) return false;
        reader.skip_blanks();
        if (!reader.take(':')) return false;
        reader.skip_blanks();
        const Member* const wanted = find(key, object_number, position);
        if (wanted == nullptr)
            return is_utf8(std::as_bytes(std::span(key))) &&
                   (decoder_.only_known_ ? take_nothing(reader) : reader.skip_value(Decoder::most_depth, room_));
        const std::size_t k = wanted->number;
        std::size_t& seen = wanted->is_object ? seen_objects_[k] : seen_[k];
        if (seen == current_) return false; // twice
        seen = current_;
        if (wanted->is_list) {
            if (reader.front() != 'n') return list_of_objects(reader, k);
            return reader.take("null") && put_no_list(k);
        }
        if (wanted->is_object) {
            if (reader.front() != 'n') return object(reader, k);
            return reader.take("null"); // Without it, what is in it is missing, too.
        }
        if (reader.front() == 'n') return reader.take("null") && put_missing(k);
        const Spec& spec = decoder_.specs_[k];
        return spec.depth == spec.lists.size() ? value(reader, k) : list(reader, k, spec.lists.size());
    }

    /// The member of a key; nullptr if it is not wanted. Keys mostly come in the order of the line before.
    const Member* find(std::string_view key, std::size_t object_number, std::size_t position) {
        const Decoder::Object& known = decoder_.objects_[object_number];
        std::vector<const Member*>& order = orders_[object_number];
        if (position < order.size()) {
            const Member* const guess = order[position];
            if (guess != nullptr && guess->key == key) return guess;
        } else {
            order.resize(position + 1, nullptr);
        }
        room_.assign(key);
        const auto found = known.places.find(room_);
        if (found == known.places.end()) return nullptr;
        return order[position] = &known.members[found->second];
    }

    /// Reads null or an object without keys.
    static bool take_nothing(Reader& reader) {
        if (!reader.take('{')) return reader.take("null");
        reader.skip_blanks();
        return reader.take('}');
    }

    bool list(Reader& reader, std::size_t k, std::size_t level) { // NOLINT(misc-no-recursion): see above
        const bool holds_values = level + 1 == decoder_.specs_[k].depth;
        if (!reader.take('[')) return false;
        reader.skip_blanks();
        if (!reader.take(']')) {
            for (bool ended = false; !ended;) {
                const bool is_good = holds_values ? value(reader, k) : list(reader, k, level + 1);
                if (!is_good || !reader.next(']', ended)) return false;
            }
        }
        end_list(k, level);
        return true;
    }

    bool list_of_objects(Reader& reader, std::size_t number) { // NOLINT(misc-no-recursion): see above
        if (!reader.take('[')) return false;
        reader.skip_blanks();
        if (!reader.take(']')) {
            for (bool ended = false; !ended;)
                if (!whole_object(reader, number) || !reader.next(']', ended)) return false;
        }
        end_lists(number);
        return true;
    }

    /// Ends a list of objects for all specs in them.
    void end_lists(std::size_t number) {
        const Decoder::Object& object = decoder_.objects_[number];
        for (const std::size_t k : object.below) end_list(k, object.level);
    }

    /// A list ends after all that has been read for the spec.
    void end_list(std::size_t k, std::size_t level) {
        std::vector<Numbers>& offsets = offsets_[k];
        const std::size_t end = level + 1 == offsets.size() ? count_of(k) : offsets[level + 1].count() - 1;
        offsets[level].add(static_cast<std::int64_t>(end));
    }

    bool value(Reader& reader, std::size_t k) {
        const Spec& spec = decoder_.specs_[k];
        switch (spec.kind) {
        case Kind::text: return text(reader, k);
        case Kind::boolean: {
            const bool truth = reader.front() == 't';
            if (!reader.take(truth ? "true" : "false")) return false;
            numbers_[k].add(static_cast<std::uint8_t>(truth));
            return true;
        }
        case Kind::float64: return real(reader, k);
        default: return whole(reader, k);
        }
    }

    bool whole(Reader& reader, std::size_t k) {
        const Spec& spec = decoder_.specs_[k];
        Number number;
        const Reader begin = reader;
        if (!reader.number(number) || !number.whole) return false;
        if (number.digits > most_digits && csv::read_uint64(reader.since(begin), number.mantissa) == 0) return false;
        if (number.negative) {
            const std::uint64_t limit = spec.kind == Kind::int64 ? 0 - static_cast<std::uint64_t>(spec.least) : 0;
            if (number.mantissa > limit) return false;
            number.mantissa = 0 - number.mantissa;
        } else if (number.mantissa > spec.most) {
            return false;
        }
        numbers_[k].add(number.mantissa);
        return true;
    }

    bool real(Reader& reader, std::size_t k) {
        Number number;
        const Reader begin = reader;
        double value = 0;
        if (!reader.number(number) || !float_of(number, reader.since(begin), value)) return false;
        constexpr double most_exact = 9007199254740992.0; // 2^53
        if (number.whole && std::abs(value) >= most_exact && decoder_.specs_[k].exact) {
            if (number.digits > most_digits || static_cast<std::uint64_t>(std::abs(value)) != number.mantissa)
                return false;
        }
        numbers_[k].add(value);
        return true;
    }

    bool text(Reader& reader, std::size_t k) {
        Reader one = reader;
        if (reader.left() > most_spare) { // Where the rest of the line is long, most of it may be other values.
            Reader behind = reader;
            std::string_view raw;
            bool escaped = false;
            if (!behind.raw_text(raw, escaped)) return false;
            one = reader.up_to(behind);
        }
        const StringsBuilder::Room room = texts_[k].reserve(1, one.left());
        auto* const begin = reinterpret_cast<char*>(room.data);
        const char* const end = one.copy_text(begin);
        if (end == nullptr) return false;
        reader.move_to(one);
        const auto size = static_cast<std::size_t>(end - begin);
        room.offsets[0] = static_cast<std::int64_t>(room.size + size);
        texts_[k].commit(1, size);
        return true;
    }

    bool fill_missing(std::size_t number) {
        const Decoder::Object& object = decoder_.objects_[number];
        for (const std::size_t k : object.specs)
            if (seen_[k] != current_ && !put_missing(k)) return false;
        for (const std::size_t k : object.lists)
            if (seen_objects_[k] != current_ && !put_no_list(k)) return false;
        return true;
    }

    /// Puts an empty list of objects in place of a missing one. Returns whether it may be missing.
    bool put_no_list(std::size_t number) {
        const Decoder::Object& object = decoder_.objects_[number];
        const auto may_miss = [&](std::size_t k) { return decoder_.specs_[k].may_miss; };
        if (!std::ranges::all_of(object.below, may_miss)) return false;
        end_lists(number);
        return true;
    }

    /// Returns whether the value may be missing.
    bool put_missing(std::size_t k) {
        const Spec& spec = decoder_.specs_[k];
        if (!spec.may_miss) return false;
        if (spec.depth != spec.lists.size()) end_list(k, spec.lists.size());
        else if (!spec.lists.empty()) return false;
        else if (spec.kind == Kind::text) texts_[k].add(std::as_bytes(std::span(spec.words)));
        else if (spec.kind == Kind::boolean) numbers_[k].add(static_cast<std::uint8_t>(spec.fill));
        else numbers_[k].add(spec.fill);
        return true;
    }

    const Decoder& decoder_;
    std::size_t objects_ = 0;                        ///< How many lines and objects in lists there were,
    std::size_t current_ = 0;                        ///< and which of them is being read.
    std::vector<std::vector<const Member*>> orders_; ///< For each object the member that each position had last.
    std::vector<std::size_t> seen_objects_;          ///< The last of them that had each object or list of objects,
    std::vector<std::size_t> seen_;                  ///< and each spec.
    std::vector<Numbers> numbers_;
    std::vector<StringsBuilder> texts_;
    std::vector<std::vector<Numbers>> offsets_; ///< Outermost lists first.
    std::string room_;
};

Decoder::Decoder(std::vector<Spec> specs, bool only_known)
    : specs_(std::move(specs)),
      objects_(1),
      only_known_(only_known) {
    for (std::size_t k = 0; k < specs_.size(); ++k) add(k);
}

void Decoder::add(std::size_t spec) {
    const Spec& added = specs_[spec];
    if (added.path.empty() || added.depth < added.lists.size()) throw FormatError(Fault::range, 0, specs_.size(), spec);
    std::size_t at = 0, around = 0, lists = 0; // `around`: the line, or the object in a list, that holds the rest.
    for (std::size_t level = 0; level < added.path.size(); ++level) {
        const bool is_list = lists < added.lists.size() && added.lists[lists] == level;
        const std::size_t known = objects_.size();
        at = add_key(at, spec, level, is_list);
        if (!is_list) continue;
        if (objects_.size() != known) {
            objects_[at].level = lists;
            objects_[around].lists.push_back(at);
        }
        objects_[at].below.push_back(spec);
        around = at;
        ++lists;
    }
    if (lists != added.lists.size()) throw FormatError(Fault::range, 0, specs_.size(), spec);
    objects_[around].specs.push_back(spec);
}

/// Adds a key of a spec to an object. Returns what it leads to.
std::size_t Decoder::add_key(std::size_t object, std::size_t spec, std::size_t level, bool is_list) {
    const std::vector<std::string>& path = specs_[spec].path;
    const bool is_object = level + 1 != path.size();
    Object& holder = objects_[object];
    const auto [place, is_new] = holder.places.emplace(path[level], holder.members.size());
    if (is_new) holder.members.push_back({path[level], is_object, is_list, is_object ? objects_.size() : spec});
    const Member& member = holder.members[place->second];
    if (member.is_object != is_object || member.is_list != is_list || (!is_new && !is_object) ||
        (is_list && !is_object))
        throw FormatError(Fault::range, 0, specs_.size(), spec);
    const std::size_t number = member.number;
    if (is_new && is_object) objects_.emplace_back();
    return number;
}

std::optional<std::vector<Column>> Decoder::decode(const std::vector<Bytes>& lines,
                                                   const std::shared_ptr<Pool>& pool) const {
    std::size_t bytes = 0;
    for (const Bytes line : lines) bytes += line.size();
    Run run(*this, pool, lines.size(), bytes);
    for (const Bytes line : lines)
        if (!run.line({reinterpret_cast<Text>(line.data()), line.size()})) return std::nullopt;
    return run.take();
}

} // namespace headrace::json
