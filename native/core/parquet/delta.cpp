#include "core/parquet/delta.hpp"

namespace headrace::parquet {
namespace {

constexpr std::uint64_t block_multiple = 128;
constexpr unsigned text_bits = 32;

[[noreturn]] void refuse(std::uint64_t at) { throw FormatError(Fault::structure, at); }

std::uint64_t unzigzag(std::uint64_t value) noexcept { return (value >> 1) ^ (~(value & 1) + 1); }

// A varint that fits into `bits` bits.
std::uint64_t take_varint(Cursor& cursor, unsigned bits) {
    const std::uint64_t value = cursor.varint();
    if (bits < 64 && value >> bits != 0) refuse(cursor.offset());
    return value;
}

// Adds up differences of more than 32 bits, each `least` more than is packed.
std::uint64_t add_wide(const std::byte* from, unsigned width, std::uint64_t least, std::uint64_t value,
                       std::span<std::uint64_t> to) noexcept {
    const std::uint64_t mask = ~std::uint64_t{0} >> (64 - width);
    std::size_t bit = 0;
    for (std::uint64_t& number : to) {
        const std::byte* const at = from + bit / 8;
        const unsigned shift = bit % 8;
        std::uint64_t word = load_le<std::uint64_t>(at) >> shift;
        if (shift + width > 64) word |= std::to_integer<std::uint64_t>(at[8]) << (64 - shift);
        value += least + (word & mask);
        number = value;
        bit += width;
    }
    return value;
}

// A length: a negative one is no length.
std::size_t length_of(std::uint64_t number, std::size_t most) {
    const auto length = static_cast<std::uint32_t>(number);
    if (length > INT32_MAX || length > most) refuse(most);
    return length;
}

} // namespace

DeltaReader::DeltaReader(Bytes bytes, std::uint64_t count, unsigned bits) : cursor_(bytes), bits_(bits), left_(count) {
    const std::uint64_t in_block = take_varint(cursor_, text_bits);
    miniblocks_ = take_varint(cursor_, text_bits);
    const std::uint64_t total = take_varint(cursor_, text_bits);
    if (in_block == 0 || in_block % block_multiple != 0 || miniblocks_ == 0 || in_block % miniblocks_ != 0 ||
        total != count)
        refuse(cursor_.offset());
    in_miniblock_ = in_block / miniblocks_;
    if (in_miniblock_ % group != 0) refuse(cursor_.offset());
    value_ = unzigzag(take_varint(cursor_, bits));
    if (left_ == 0) return;
    block_[0] = value_; // The first number is in the header.
    end_ = 1;
    --left_;
}

void DeltaReader::next_miniblock() {
    if (widths_.empty()) {
        least_ = unzigzag(take_varint(cursor_, bits_));
        widths_ = cursor_.take(miniblocks_);
    }
    width_ = std::to_integer<unsigned>(widths_.front());
    widths_ = widths_.subspan(1);
    // The last one is padded, too. Those after it have widths, but are not there.
    if (width_ > bits_ || in_miniblock_ / 8 * width_ > cursor_.remaining()) refuse(cursor_.offset());
    packed_ = in_miniblock_;
}

void DeltaReader::refill() {
    if (left_ == 0) refuse(cursor_.offset());
    if (packed_ == 0) next_miniblock();
    const std::byte* const from = cursor_.take(std::uint64_t{width_} * (group / 8)).data();
    packed_ -= group;
    at_ = 0;
    end_ = static_cast<std::size_t>(std::min<std::uint64_t>(group, left_));
    left_ -= end_;
    if (width_ > 32) {
        value_ = add_wide(from, width_, least_, value_, std::span(block_).first(end_));
        return;
    }
    std::array<std::uint32_t, group> packed{};
    unpack(from, width_, packed);
    for (std::size_t i = 0; i < end_; ++i) block_[i] = value_ += least_ + packed[i];
}

std::span<const std::uint64_t> DeltaReader::take(std::size_t most) {
    if (at_ == end_) refill();
    const std::size_t some = std::min(most, end_ - at_);
    at_ += some;
    return std::span<const std::uint64_t>(block_).subspan(at_ - some, some);
}

Bytes DeltaReader::rest() const {
    DeltaReader reader(*this);
    while (reader.left_ > 0) {
        if (reader.packed_ == 0) reader.next_miniblock();
        reader.left_ -= std::min(reader.left_, reader.packed_);
        reader.cursor_.skip(reader.packed_ / 8 * reader.width_);
        reader.packed_ = 0;
    }
    reader.cursor_.skip(reader.packed_ / 8 * reader.width_);
    return reader.cursor_.take(reader.cursor_.remaining());
}

DeltaTexts::DeltaTexts(Bytes bytes, std::uint64_t count, bool shares_prefixes, std::uint64_t most_bytes)
    : prefixes_(shares_prefixes ? std::optional<DeltaReader>(std::in_place, bytes, count, text_bits) : std::nullopt),
      lengths_(prefixes_ ? prefixes_->rest() : bytes, count, text_bits),
      content_(lengths_.rest()),
      most_bytes_(most_bytes) {}

void DeltaTexts::add(std::size_t count, StringsBuilder& to) {
    if (prefixes_) add_suffixes(count, to);
    else add_whole(count, to);
    if (lengths_.left() == 0 && !content_.empty()) refuse(content_.size());
}

// The texts lie end to end, as they will.
void DeltaTexts::add_whole(std::size_t count, StringsBuilder& to) {
    while (count > 0) {
        const std::span<const std::uint64_t> lengths = lengths_.take(count);
        std::size_t total = 0;
        for (const std::uint64_t length : lengths) total += length_of(length, content_.size() - total);
        const StringsBuilder::Room room = to.reserve(lengths.size(), total);
        if (total != 0) std::memcpy(room.data, content_.data(), total);
        std::size_t end = room.size;
        for (std::size_t i = 0; i < lengths.size(); ++i) {
            end += static_cast<std::uint32_t>(lengths[i]);
            room.offsets[i] = static_cast<std::int64_t>(end);
        }
        to.commit(lengths.size(), total);
        content_ = content_.subspan(total);
        count -= lengths.size();
    }
}

void DeltaTexts::add_suffixes(std::size_t count, StringsBuilder& to) {
    for (; count > 0; --count) {
        const std::size_t shared = length_of(prefixes_->take(1).front(), last_.size());
        const std::size_t more = length_of(lengths_.take(1).front(), content_.size());
        if (shared + more > most_bytes_) refuse(content_.size());
        most_bytes_ -= shared + more;
        last_.resize(shared);
        last_.insert(last_.end(), content_.begin(), content_.begin() + static_cast<std::ptrdiff_t>(more));
        content_ = content_.subspan(more);
        to.add(last_);
    }
}

} // namespace headrace::parquet
