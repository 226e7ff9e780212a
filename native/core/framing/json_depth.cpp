#include "core/framing/json_depth.hpp"

#include <bit>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace headrace {

namespace {

// '[' and '{' differ in one bit, and so do ']' and '}'.
constexpr unsigned char case_bit = 0xDF;
constexpr unsigned char opening = '[' & case_bit;
constexpr unsigned char closing = ']' & case_bit;
constexpr std::size_t block_size = 16;

/// What each of 16 bytes is, as bit masks.
struct Places {
    std::uint32_t quotes = 0, backslashes = 0, openings = 0, closings = 0, ends = 0;
};

Places places_in(const unsigned char* at) noexcept {
#if defined(__SSE2__)
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i folded = _mm_and_si128(block, _mm_set1_epi8(static_cast<char>(case_bit)));
    const auto equal = [](__m128i bytes, unsigned char wanted) {
        return static_cast<std::uint32_t>(
            _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(static_cast<char>(wanted)))));
    };
    return {equal(block, '"'), equal(block, '\\'), equal(folded, opening), equal(folded, closing), equal(block, '\n')};
#else
    Places found;
    for (std::uint32_t i = 0; i < block_size; ++i) {
        found.quotes |= static_cast<std::uint32_t>(at[i] == '"') << i;
        found.backslashes |= static_cast<std::uint32_t>(at[i] == '\\') << i;
        found.openings |= static_cast<std::uint32_t>((at[i] & case_bit) == opening) << i;
        found.closings |= static_cast<std::uint32_t>((at[i] & case_bit) == closing) << i;
        found.ends |= static_cast<std::uint32_t>(at[i] == '\n') << i;
    }
    return found;
#endif
}

constexpr std::uint32_t every = (std::uint32_t{1} << block_size) - 1;

/// Where strings begin and end, carried from block to block.
class QuotedText {
  public:
    /// The bytes of the next block to look at: not the first one, if it is escaped.
    std::uint32_t start() noexcept {
        const std::uint32_t left = is_escaped_ ? every & ~std::uint32_t{1} : every;
        is_escaped_ = false;
        return left;
    }

    [[nodiscard]] bool is_inside() const noexcept { return is_inside_; }

    /// Consumes a quote, or a backslash inside a string and the byte that it escapes. Returns whether byte `at` was
    /// one. Removes it, and those before it, from `left`.
    bool take(const Places& found, std::uint32_t at, std::uint32_t& left) noexcept {
        const std::uint32_t bit = std::uint32_t{1} << at;
        left &= ~(bit | (bit - 1));
        if ((found.quotes & bit) != 0) {
            is_inside_ = !is_inside_;
            return true;
        }
        if (!is_inside_) return false;
        left &= ~(bit << 1);
        is_escaped_ = at == block_size - 1;
        return true;
    }

  private:
    bool is_inside_ = false;
    bool is_escaped_ = false;
};

/// The state carried from block to block.
class Nesting {
  public:
    explicit Nesting(std::uint64_t most) noexcept : most_(most) {}

    /// Consumes the next 16 bytes. Returns the index of the first bracket nested too deep, or 16.
    std::uint32_t take(const Places& found) noexcept {
        std::uint32_t left = text_.start();
        for (;;) {
            const std::uint32_t others = text_.is_inside() ? found.backslashes : found.openings | found.closings;
            const std::uint32_t wanted = (found.quotes | others) & left;
            if (wanted == 0) return block_size;
            const auto at = static_cast<std::uint32_t>(std::countr_zero(wanted));
            if (text_.take(found, at, left)) continue;
            if ((found.closings >> at & 1) != 0) {
                depth_ -= depth_ > 0; // The parser reports surplus closing brackets.
            } else if (depth_++ == most_) {
                return at;
            }
        }
    }

  private:
    std::uint64_t most_;
    std::uint64_t depth_ = 0;
    QuotedText text_;
};

/// The same for lines that should be one object each.
class Objects {
  public:
    explicit Objects(std::uint64_t most) noexcept : most_(most) {}

    /// Consumes the next 16 bytes. Returns the index of the first that no such line has, or 16.
    std::uint32_t take(const unsigned char* bytes) noexcept {
        const Places found = places_in(bytes);
        std::uint32_t left = text_.start();
        while (left != 0) {
            if (depth_ == 0) {
                const auto at = static_cast<std::uint32_t>(std::countr_zero(left));
                left &= left - 1;
                if (!take_between(bytes[at])) return at;
                continue;
            }
            const std::uint32_t others = text_.is_inside() ? found.backslashes : found.openings | found.closings;
            const std::uint32_t wanted = (found.quotes | found.ends | others) & left;
            if (wanted == 0) break;
            const auto at = static_cast<std::uint32_t>(std::countr_zero(wanted));
            if ((found.ends >> at & 1) != 0) return at;
            if (text_.take(found, at, left)) continue;
            if ((found.closings >> at & 1) != 0) {
                --depth_;
            } else if (depth_++ == most_) {
                return at;
            }
        }
        return block_size;
    }

    [[nodiscard]] bool is_between() const noexcept { return depth_ == 0; }

  private:
    /// A byte outside the objects.
    bool take_between(unsigned char byte) noexcept {
        if (byte == '\n') {
            is_taken_ = false;
        } else if (byte == '{') {
            if (is_taken_ || most_ == 0) return false;
            is_taken_ = true;
            depth_ = 1;
        } else {
            return byte == ' ' || byte == '\t' || byte == '\r';
        }
        return true;
    }

    std::uint64_t most_;
    std::uint64_t depth_ = 0;
    bool is_taken_ = false; ///< Whether this line has had its object.
    QuotedText text_;
};

} // namespace

std::int64_t json_too_deep(Bytes text, std::uint64_t most) noexcept {
    const auto* const begin = reinterpret_cast<const unsigned char*>(text.data());
    Nesting nesting(most);
    std::size_t at = 0;
    for (; text.size() - at >= block_size; at += block_size) {
        const std::uint32_t deep = nesting.take(places_in(begin + at));
        if (deep < block_size) return static_cast<std::int64_t>(at + deep);
    }
    unsigned char rest[block_size] = {};
    if (at < text.size()) std::memcpy(rest, begin + at, text.size() - at);
    const std::uint32_t deep = nesting.take(places_in(rest));
    return deep < block_size ? static_cast<std::int64_t>(at + deep) : -1;
}

std::int64_t json_not_objects(Bytes lines, std::uint64_t most) noexcept {
    const auto* const begin = reinterpret_cast<const unsigned char*>(lines.data());
    Objects objects(most);
    std::size_t at = 0;
    for (; lines.size() - at >= block_size; at += block_size) {
        const std::uint32_t odd = objects.take(begin + at);
        if (odd < block_size) return static_cast<std::int64_t>(at + odd);
    }
    unsigned char rest[block_size];
    std::memset(rest, ' ', block_size);
    if (at < lines.size()) std::memcpy(rest, begin + at, lines.size() - at);
    const std::uint32_t odd = objects.take(rest);
    if (odd < block_size) return static_cast<std::int64_t>(at + odd);
    return objects.is_between() ? -1 : static_cast<std::int64_t>(lines.size());
}

} // namespace headrace
