#include "core/json/decode.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

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
          seen_(decoder.specs_.size(), 0),
          numbers_(decoder.specs_.size()),
          texts_(decoder.specs_.size()),
          offsets_(decoder.specs_.size()) {
        constexpr std::size_t bytes_of_a_number = 8; // A guess: a few digits, a comma and a blank.
        for (std::size_t k = 0; k < decoder.specs_.size(); ++k) {
            const Spec& spec = decoder.specs_[k];
            const std::size_t values = spec.is_list ? bytes / bytes_of_a_number : lines;
            if (spec.kind == Kind::text) texts_[k] = StringsBuilder(pool, values, bytes / decoder.specs_.size());
            else numbers_[k] = Numbers(pool, spec.kind == Kind::boolean ? 1 : sizeof(std::int64_t), values);
            if (!spec.is_list) continue;
            offsets_[k] = Numbers(pool, sizeof(std::int64_t), lines + 1);
            offsets_[k].add(std::int64_t{0});
        }
    }

    /// Returns whether the line is plain.
    bool line(std::string_view text) {
        ++line_;
        Reader reader(text.data(), text.data() + text.size());
        reader.skip_blanks_and_ends();
        if (!reader.take('{')) return false;
        reader.skip_blanks();
        if (!reader.take('}'))
            for (bool ended = false; !ended; ++member_)
                if (!member(reader) || !reader.next('}', ended)) return false;
        member_ = 0;
        reader.skip_blanks_and_ends();
        return reader.done() && fill_missing();
    }

    std::optional<std::vector<Column>> take() {
        std::vector<Column> columns(decoder_.specs_.size());
        for (std::size_t k = 0; k < columns.size(); ++k) {
            const Spec& spec = decoder_.specs_[k];
            Column& column = columns[k];
            column.values = count_of(k);
            if (spec.kind == Kind::text) {
                column.texts = texts_[k].finish();
                if (first_not_utf8(column.texts.view())) return std::nullopt;
            } else {
                column.numbers = numbers_[k].finish();
            }
            if (spec.is_list) column.offsets = offsets_[k].finish();
        }
        return columns;
    }

  private:
    static constexpr std::size_t unwanted = SIZE_MAX;

    [[nodiscard]] std::size_t count_of(std::size_t k) const noexcept {
        return decoder_.specs_[k].kind == Kind::text ? texts_[k].count() : numbers_[k].count();
    }

    /// A key and its value.
    bool member(Reader& reader) {
        std::string_view key;
        bool escaped = false;
        if (!reader.raw_text(key, escaped) || escaped) return false;
        reader.skip_blanks();
        if (!reader.take(':')) return false;
        reader.skip_blanks();
        const std::size_t k = spec_of(key);
        if (k == unwanted)
            return is_utf8(std::as_bytes(std::span(key))) && reader.skip_value(Decoder::most_depth, room_);
        if (seen_[k] == line_) return false; // twice
        seen_[k] = line_;
        const Spec& spec = decoder_.specs_[k];
        if (reader.front() == 'n') return spec.may_miss && reader.take("null") && put_missing(k);
        if (!spec.is_list) return value(reader, k);
        if (!list(reader, k)) return false;
        offsets_[k].add(static_cast<std::int64_t>(count_of(k)));
        return true;
    }

    /// The spec of a key. Keys mostly come in the order of the line before.
    std::size_t spec_of(std::string_view key) {
        if (member_ < order_.size()) {
            const std::size_t guess = order_[member_];
            if (guess != unwanted && decoder_.specs_[guess].key == key) return guess;
        } else {
            order_.resize(member_ + 1, unwanted);
        }
        const auto found = decoder_.numbers_.find(key);
        if (found == decoder_.numbers_.end()) return unwanted;
        return order_[member_] = found->second;
    }

    bool list(Reader& reader, std::size_t k) {
        if (!reader.take('[')) return false;
        reader.skip_blanks();
        if (reader.take(']')) return true;
        for (bool ended = false; !ended;)
            if (!value(reader, k) || !reader.next(']', ended)) return false;
        return true;
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
            if (number.mantissa > limit || spec.kind == Kind::uint64) return false;
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
        const StringsBuilder::Room room = texts_[k].reserve(1, reader.left());
        auto* const begin = reinterpret_cast<char*>(room.data);
        const char* const end = reader.copy_text(begin);
        if (end == nullptr) return false;
        const auto size = static_cast<std::size_t>(end - begin);
        room.offsets[0] = static_cast<std::int64_t>(room.size + size);
        texts_[k].commit(1, size);
        return true;
    }

    bool fill_missing() {
        for (std::size_t k = 0; k < seen_.size(); ++k)
            if (seen_[k] != line_ && !(decoder_.specs_[k].may_miss && put_missing(k))) return false;
        return true;
    }

    bool put_missing(std::size_t k) {
        if (decoder_.specs_[k].is_list) offsets_[k].add(static_cast<std::int64_t>(count_of(k)));
        else numbers_[k].add(std::numeric_limits<double>::quiet_NaN());
        return true;
    }

    const Decoder& decoder_;
    std::size_t line_ = 0;
    std::size_t member_ = 0;         ///< The number of the current member in its line.
    std::vector<std::size_t> order_; ///< The spec that each member had last.
    std::vector<std::size_t> seen_;  ///< The last line that had the key.
    std::vector<Numbers> numbers_;
    std::vector<StringsBuilder> texts_;
    std::vector<Numbers> offsets_;
    std::string room_;
};

Decoder::Decoder(std::vector<Spec> specs) : specs_(std::move(specs)) {
    for (std::size_t k = 0; k < specs_.size(); ++k)
        if (!numbers_.emplace(specs_[k].key, k).second) throw FormatError(Fault::range, 0, specs_.size(), k);
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
