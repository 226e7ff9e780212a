#include "core/parquet/recurring.hpp"

#include <algorithm>

namespace headrace::parquet {

RecurringTexts::RecurringTexts(const std::shared_ptr<Pool>& pool, std::size_t values, const RecurringLimits& limits)
    : pool_(pool),
      limits_(limits),
      texts_(pool, 0, 0),
      codes_(pool->take(std::max<std::size_t>(values, 1) * sizeof(std::int32_t))) {}

void RecurringTexts::put(std::size_t text) {
    if (text > INT32_MAX) throw FormatError(Fault::structure, 0, INT32_MAX, text);
    store_le(codes_.data() + count_ * sizeof(std::int32_t), static_cast<std::int32_t>(text));
    ++count_;
}

// Of texts that were added as they are, each is a value.
void RecurringTexts::number_from(std::size_t first) {
    for (std::size_t text = first; text < texts_.count(); ++text) put(text);
}

void RecurringTexts::add(Bytes text) {
    texts_.add(text);
    bytes_ += text.size();
    number_from(texts_.count() - 1);
}

void RecurringTexts::add_plain(Bytes& from, std::size_t count) {
    const std::size_t first = texts_.count(), before = texts_.size();
    parquet::add_plain(from, count, texts_);
    bytes_ += texts_.size() - before;
    number_from(first);
}

void RecurringTexts::add_deltas(DeltaTexts& from, std::size_t count) {
    const std::size_t first = texts_.count(), before = texts_.size();
    from.add(count, texts_);
    bytes_ += texts_.size() - before;
    number_from(first);
}

void RecurringTexts::add_codes(std::span<const std::uint32_t> codes, const std::shared_ptr<const Dictionary>& of) {
    of->check(codes);
    if (of != last_) {
        last_ = of;
        numbers_.assign(of->count(), -1);
    }
    for (const std::uint32_t code : codes) {
        const Bytes text = of->text(code);
        if (numbers_[code] < 0) {
            if (texts_.count() > INT32_MAX) throw FormatError(Fault::structure, 0, INT32_MAX, texts_.count());
            numbers_[code] = static_cast<std::int32_t>(texts_.count());
            texts_.add(text);
        }
        bytes_ += text.size();
        put(static_cast<std::size_t>(numbers_[code]));
    }
}

bool RecurringTexts::is_worth_it() const noexcept {
    if (bytes_ > limits_.most_bytes) return true;
    const std::uint64_t kept = texts_.size() + texts_.count() * sizeof(std::int64_t) + count_ * sizeof(std::int32_t);
    return bytes_ >= limits_.least_bytes && bytes_ / limits_.least_ratio >= kept &&
           bytes_ / std::max<std::size_t>(count_, 1) >= limits_.least_each;
}

StringBlocks RecurringTexts::write_out() {
    const StringBlocks once = texts_.finish();
    const StringsView texts = once.view();
    StringsBuilder all(pool_, count_, static_cast<std::size_t>(bytes_));
    for (std::size_t i = 0; i < count_; ++i)
        all.add(texts.at(load_le<std::uint32_t>(codes_.data() + i * sizeof(std::uint32_t))));
    return all.finish();
}

} // namespace headrace::parquet
