#include "core/text/decimal.hpp"

#include <array>
#include <limits>

namespace headrace {
namespace {

/// The upper 128 bits of a power of five.
struct Power {
    std::uint64_t high = 0, low = 0;
};

constexpr int least_power = -342; // times 2^64 is below the least float64
constexpr int most_power = 308;

/// Powers of five from 5^-342 to 5^308, as Lemire, "Number parsing at a gigabyte per second" (2021), gives them:
/// rounded down, but up from 5^-27 to 5^-1.
class Powers {
  public:
    constexpr Powers() noexcept {
        Digits number{};
        number[0] = 1;
        for (int q = 0; q <= most_power; ++q) {
            at(q) = top_of(number);
            multiply(number);
        }
        number = {};
        number[limbs - 1] = std::uint32_t{1} << 31;
        for (int q = -1; q >= least_power; --q) {
            divide(number); // floor(floor(x / 5) / 5) = floor(x / 25)
            at(q) = top_of(number);
            constexpr int least_rounded_up = -27;
            if (q >= least_rounded_up && ++at(q).low == 0) ++at(q).high;
        }
    }

    [[nodiscard]] const Power& operator[](std::int64_t q) const noexcept {
        return powers_[static_cast<std::size_t>(q - least_power)];
    }

  private:
    static constexpr std::size_t limbs = 32; // of 32 bits: 5^342 has 795, and 128 more are wanted
    using Digits = std::array<std::uint32_t, limbs>;

    constexpr Power& at(int q) noexcept { return powers_[static_cast<std::size_t>(q - least_power)]; }

    static constexpr void multiply(Digits& number) noexcept {
        std::uint64_t carry = 0;
        for (std::uint32_t& limb : number) {
            carry += std::uint64_t{limb} * 5;
            limb = static_cast<std::uint32_t>(carry);
            carry >>= 32;
        }
    }

    static constexpr void divide(Digits& number) noexcept {
        std::uint64_t rest = 0;
        for (std::size_t i = limbs; i-- > 0;) {
            rest = rest << 32 | number[i];
            number[i] = static_cast<std::uint32_t>(rest / 5);
            rest %= 5;
        }
    }

    /// The upper 128 bits, from the first one that is set.
    static constexpr Power top_of(const Digits& number) noexcept {
        std::size_t top = limbs - 1;
        while (number[top] == 0) --top;
        const int shift = std::countl_zero(number[top]);
        std::array<std::uint32_t, 4> words{};
        for (std::size_t k = 0; k < words.size(); ++k) {
            const auto limb = [&](std::size_t i) -> std::uint64_t { return i <= top ? number[top - i] : 0; };
            words[k] = static_cast<std::uint32_t>((limb(k) << 32 | limb(k + 1)) << shift >> 32);
        }
        return {std::uint64_t{words[0]} << 32 | words[1], std::uint64_t{words[2]} << 32 | words[3]};
    }

    std::array<Power, most_power - least_power + 1> powers_{};
};

constexpr Powers powers_of_five;

/// The product of two words, as upper and lower half.
Power product(std::uint64_t a, std::uint64_t b) noexcept {
#if defined(__SIZEOF_INT128__)
    __extension__ using Wide = unsigned __int128;
    const Wide both = static_cast<Wide>(a) * b;
    return {static_cast<std::uint64_t>(both >> 64), static_cast<std::uint64_t>(both)};
#else
    const std::uint64_t a_high = a >> 32, a_low = a & 0xFFFFFFFF, b_high = b >> 32, b_low = b & 0xFFFFFFFF;
    const std::uint64_t low = a_low * b_low, middle = a_high * b_low + (low >> 32);
    const std::uint64_t other = a_low * b_high + (middle & 0xFFFFFFFF);
    return {a_high * b_high + (middle >> 32) + (other >> 32), other << 32 | (low & 0xFFFFFFFF)};
#endif
}

template <typename T> struct Layout;
template <> struct Layout<double> {
    using Bits = std::uint64_t;
    static constexpr int exact_power = 22; ///< 10^22 is a float64.
    static constexpr std::array<double, 23> tens{1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    static constexpr std::int64_t least_tie = -4, most_tie = 23; ///< Powers of ten whose products may be ties.
    static constexpr int infinite = 0x7FF;
};
template <> struct Layout<float> {
    using Bits = std::uint32_t;
    static constexpr int exact_power = 10;
    static constexpr std::array<float, 11> tens{1e0F, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F, 1e6F, 1e7F, 1e8F, 1e9F, 1e10F};
    static constexpr std::int64_t least_tie = -17, most_tie = 10;
    static constexpr int infinite = 0xFF;
};

/// If mantissa and power of ten are exact floats, their product or quotient is rounded only once (Clinger 1990).
template <typename T> bool round_exact(std::uint64_t mantissa, std::int64_t exponent, T& value) noexcept {
    constexpr std::uint64_t most = std::uint64_t{1} << std::numeric_limits<T>::digits;
    constexpr std::int64_t power = Layout<T>::exact_power;
    if (mantissa > most || exponent > power || exponent < -power) return false;
    value = static_cast<T>(mantissa);
    if (exponent < 0) value /= Layout<T>::tens[static_cast<std::size_t>(-exponent)];
    else value *= Layout<T>::tens[static_cast<std::size_t>(exponent)];
    return true;
}

template <typename T> bool round_product(std::uint64_t mantissa, std::int64_t exponent, T& value) noexcept {
    if (exponent < least_power || exponent > most_power) return false;
    if (mantissa == 0) {
        value = 0;
        return true;
    }
    constexpr int stored = std::numeric_limits<T>::digits - 1;
    constexpr int spare = 64 - stored - 3; // two bits for rounding, and one that the product may lack
    const int zeros = std::countl_zero(mantissa);
    const std::uint64_t number = mantissa << zeros;
    const Power& power = powers_of_five[exponent];
    Power found = product(number, power.high);
    constexpr std::uint64_t undecided = ~std::uint64_t{0} >> (stored + 3);
    if ((found.high & undecided) == undecided) { // The lower half of the power may carry.
        const std::uint64_t carried = product(number, power.low).high;
        found.low += carried;
        found.high += found.low < carried;
        if (found.low == ~std::uint64_t{0} && (exponent < -27 || exponent > 55)) return false;
    }
    const auto upper = static_cast<int>(found.high >> 63);
    std::uint64_t bits = found.high >> (upper + spare);
    const auto log2 = static_cast<int>((217706 * exponent) >> 16); // of 10^exponent, rounded down
    int binary = log2 + 63 + upper - zeros + Layout<T>::infinite / 2;
    if (binary <= 0) return false; // subnormal
    const bool may_tie = found.low <= 1 && exponent >= Layout<T>::least_tie && exponent <= Layout<T>::most_tie;
    if (may_tie && (bits & 3) == 1 && bits << (upper + spare) == found.high) bits &= ~std::uint64_t{1};
    bits = (bits + (bits & 1)) >> 1;
    if (bits >> (stored + 1) != 0) {
        bits >>= 1;
        ++binary;
    }
    if (binary >= Layout<T>::infinite) return false;
    bits &= ~(std::uint64_t{1} << stored);
    using Bits = typename Layout<T>::Bits; // NOLINT(readability-redundant-typename): Clang before 16 needs it
    value = std::bit_cast<T>(static_cast<Bits>(bits | static_cast<std::uint64_t>(binary) << stored));
    return true;
}

} // namespace

bool round_decimal(std::uint64_t mantissa, std::int64_t exponent, double& value) noexcept {
    return round_exact(mantissa, exponent, value) || round_product(mantissa, exponent, value);
}
bool round_decimal(std::uint64_t mantissa, std::int64_t exponent, float& value) noexcept {
    return round_exact(mantissa, exponent, value) || round_product(mantissa, exponent, value);
}
double round_any_decimal(std::uint64_t mantissa, std::int64_t exponent) noexcept {
    double value = 0;
    return round_product(mantissa, exponent, value) ? value : std::numeric_limits<double>::quiet_NaN();
}

} // namespace headrace
