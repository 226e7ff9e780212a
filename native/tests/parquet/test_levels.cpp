#include "core/parquet/levels.hpp"

#include <algorithm>
#include <random>

#include "parquet/made_bytes.hpp"

using namespace headrace;
using namespace headrace::parquet;
using namespace headrace::testing;

namespace {

using Buffer = std::vector<std::byte>;
using Numbers = std::vector<std::uint32_t>;

std::uint32_t largest(unsigned width) { return width == 0 ? 0 : UINT32_MAX >> (32 - width); }

// Bytes that may be unpacked.
class Packed : public WithSlack {
  public:
    explicit Packed(const Buffer& bytes) : WithSlack(bytes, packed_slack) {}
    explicit Packed(std::string_view hex) : Packed(from_hex(hex)) {}
};

// One bit after another.
void put_packed(Buffer& to, const Numbers& numbers, unsigned width) {
    const std::size_t begin = to.size();
    to.resize(begin + (numbers.size() * width + 7) / 8);
    for (std::size_t i = 0; i < numbers.size(); ++i)
        for (unsigned bit = 0; bit < width; ++bit) {
            const std::size_t at = i * width + bit;
            to[begin + at / 8] |= static_cast<std::byte>((numbers[i] >> bit & 1) << at % 8);
        }
}

void put_equal(Buffer& to, std::uint64_t count, std::uint32_t value, unsigned width) {
    put_varint(to, count << 1);
    for (unsigned byte = 0; byte < (width + 7) / 8; ++byte) to.push_back(static_cast<std::byte>(value >> 8 * byte));
}

// Random runs, and the numbers in them.
struct Runs {
    Buffer bytes;
    Numbers numbers;
};

Runs make_runs(std::mt19937& random, unsigned width, std::size_t count) {
    Runs runs;
    std::uniform_int_distribution<std::uint32_t> any(0, largest(width));
    while (runs.numbers.size() < count) {
        const std::size_t size = random() % 3 == 0 ? 1 + random() % 700 : 1 + random() % 9;
        if (random() % 2 == 0) {
            const std::uint32_t value = any(random);
            put_equal(runs.bytes, size, value, width);
            runs.numbers.insert(runs.numbers.end(), size, value);
        } else {
            Numbers some(size * 8);
            for (std::uint32_t& value : some) value = any(random);
            put_varint(runs.bytes, size << 1 | 1);
            put_packed(runs.bytes, some, width);
            runs.numbers.insert(runs.numbers.end(), some.begin(), some.end());
        }
    }
    return runs;
}

Numbers read(HybridReader reader, std::size_t count, std::mt19937& random) {
    Numbers found;
    while (found.size() < count) {
        const std::span<const std::uint32_t> some =
            reader.take(std::min<std::size_t>(count - found.size(), 1 + random() % 300));
        check(!some.empty() && some.size() <= count - found.size());
        found.insert(found.end(), some.begin(), some.end());
    }
    return found;
}

Fault fault_of_runs(std::string_view hex, unsigned width, std::size_t count) {
    const Packed held(hex);
    std::mt19937 random(1);
    return fault_of([&] { (void)read(HybridReader(held.bytes(), width), count, random); }).fault;
}

void test_unpack() {
    std::mt19937 random(1);
    for (unsigned width = 0; width <= 32; ++width)
        for (const std::size_t groups : {0, 1, 2, 31}) {
            Numbers numbers(groups * 8), found(groups * 8, 7);
            for (std::uint32_t& number : numbers) number = static_cast<std::uint32_t>(random()) & largest(width);
            Buffer packed;
            put_packed(packed, numbers, width);
            unpack(Packed(packed).bytes().data(), width, found);
            check(found == numbers);
        }
}

void test_runs() {
    std::mt19937 random(2);
    for (unsigned width = 0; width <= 32; ++width)
        for (const std::size_t count : {1, 8, 100, 3000}) {
            const Runs runs = make_runs(random, width, count);
            const Packed held(runs.bytes);
            check(read(HybridReader(held.bytes(), width), runs.numbers.size(), random) == runs.numbers);
            // One number more, or one byte less.
            check(fault_of([&] {
                      (void)read(HybridReader(held.bytes(), width), runs.numbers.size() + 1, random);
                  }).fault == Fault::truncated);
            if (width == 0) continue;
            const Packed less(Buffer(runs.bytes.begin(), runs.bytes.end() - 1));
            (void)fault_of([&] { (void)read(HybridReader(less.bytes(), width), runs.numbers.size(), random); });
        }
    // Of the examples in Encodings.md: 0 to 7 in three bits.
    const Packed example("03 88c6fa");
    check(read(HybridReader(example.bytes(), 3), 8, random) == Numbers{0, 1, 2, 3, 4, 5, 6, 7});
    const Packed bits("b1");
    check(read(HybridReader::of_bits(bits.bytes()), 8, random) == Numbers{1, 0, 0, 0, 1, 1, 0, 1});
    (void)fault_of([&] { (void)read(HybridReader::of_bits(bits.bytes()), 9, random); });
    (void)fault_of([&] { (void)read(HybridReader(), 1, random); });
}

void test_hostile_runs() {
    const Packed none("");
    check(fault_of([&] { (void)HybridReader(none.bytes(), 33); }).fault == Fault::structure);
    check(fault_of([&] { (void)HybridReader(none.bytes(), 255); }).fault == Fault::structure);
    check(fault_of_runs("00 05", 3, 1) == Fault::structure);                       // no numbers
    check(fault_of_runs("01", 3, 1) == Fault::structure);                          //
    check(fault_of_runs("02", 3, 1) == Fault::truncated);                          // without its value
    check(fault_of_runs("05 88c6fa", 3, 1) == Fault::structure);                   // two groups in three bytes
    check(fault_of_runs("ffffffffffffffffff01 88c6fa", 3, 1) == Fault::structure); // 2^63 groups
    check(fault_of_runs("ffffffffffffffffff01", 0, 1) == Fault::structure);        //
    check(fault_of_runs("ffffffffffffffffffff01 88c6fa", 3, 1) == Fault::wire);    // no varint
    check(fault_of_runs("80", 3, 1) == Fault::truncated);                          //
    check(fault_of_runs("", 0, 1) == Fault::truncated && fault_of_runs("", 9, 1) == Fault::truncated);
    // As many as a count of 32 bits can say: no memory is taken for them.
    std::mt19937 random(3);
    const Packed many("feffffff0f 01");
    check(read(HybridReader(many.bytes(), 1), 1000, random) == Numbers(1000, 1));
    check(HybridReader(many.bytes(), 1).next_run().count == INT32_MAX);
}

void test_levels() {
    std::mt19937 random(4);
    for (const std::uint32_t most : {1, 2, 3})
        for (int turn = 0; turn < 200; ++turn) {
            Runs runs = make_runs(random, static_cast<unsigned>(std::bit_width(most)), 1 + random() % 400);
            if (turn % 2 == 0) { // All equal, but for what the last group pads.
                runs = {};
                put_equal(runs.bytes, 5, most, 1);
                put_varint(runs.bytes, 1 << 1 | 1);
                put_packed(runs.bytes, {most, most, most, 0, 0, 0, 0, 0}, static_cast<unsigned>(std::bit_width(most)));
                runs.numbers = {most, most, most, most, most, most, most, most, 0};
            }
            const Packed held(runs.bytes);
            const auto is_most = [&](std::uint32_t level) { return level == most; };
            for (std::size_t count = 0; count <= runs.numbers.size(); count += 1 + random() % 40) {
                const auto end = runs.numbers.begin() + static_cast<std::ptrdiff_t>(count);
                check(are_all(held.bytes(), most, count) == std::all_of(runs.numbers.begin(), end, is_most));
            }
        }
    for (int turn = 0; turn < 200; ++turn) {
        const Runs runs = make_runs(random, 1, 1 + random() % 900);
        const std::size_t count = random() % (runs.numbers.size() + 1);
        Numbers zeros, found{77};
        for (std::uint32_t i = 0; i < count; ++i)
            if (runs.numbers[i] == 0) zeros.push_back(i);
        const Packed held(runs.bytes);
        find_zeros(held.bytes(), count, found);
        check(found.front() == 77 && std::ranges::equal(std::span(found).subspan(1), zeros));
    }
    const Packed few("06 01");
    Numbers found;
    check(fault_of([&] { (void)are_all(few.bytes(), 1, 4); }).fault == Fault::truncated);
    check(fault_of([&] { find_zeros(few.bytes(), 4, found); }).fault == Fault::truncated);
    check(are_all(few.bytes(), 1, 3) && are_all({}, 1, 0));
}

PageRows rows_of(const Numbers& again, const Numbers& levels, const LevelForm& form) {
    Buffer repetition, definition;
    for (const std::uint32_t value : again) put_equal(repetition, 1, value, 1);
    for (const std::uint32_t value : levels) put_equal(definition, 1, value, 2);
    const Packed repeated(repetition), defined(definition);
    PageRows rows{{9}, {9}, 9, true};
    read_rows(repeated.bytes(), defined.bytes(), levels.size(), form, rows);
    return rows;
}

void test_rows() {
    const LevelForm form{3, 1};
    const auto fault = [&](const Numbers& again, const Numbers& levels) {
        return fault_of([&] { (void)rows_of(again, levels, form); }).fault;
    };
    PageRows rows = rows_of({}, {}, form);
    check(rows.starts.empty() && rows.values == 0 && !rows.ends_empty);
    rows = rows_of({0, 1, 1, 0, 0, 1}, {3, 3, 3, 3, 3, 3}, form);
    check(rows.starts == Numbers{0, 3, 4} && rows.values == 6 && !rows.ends_empty);
    rows = rows_of({1, 0, 0, 0, 1, 0}, {3, 1, 1, 3, 3, 1}, form);
    check(rows.starts == Numbers{1, 1, 1, 3} && rows.values == 3 && rows.ends_empty);
    check(rows.nulls.empty());
    // Nulls in place of a list are empty lists; other nulls are values.
    rows = rows_of({0, 0, 1, 0, 0, 1}, {0, 2, 3, 1, 3, 2}, form);
    check(rows.starts == Numbers{0, 0, 2, 2} && rows.values == 4 && !rows.ends_empty);
    check(rows.nulls == Numbers{0, 3});
    check(rows_of({0}, {0}, form).ends_empty && rows_of({0, 0}, {2, 0}, form).ends_empty);
    check(fault({1}, {1}) == Fault::structure && fault({1}, {0}) == Fault::structure); // an empty list goes on
    check(fault({0, 1}, {1, 3}) == Fault::structure);                                  // a value follows an empty list
    check(fault({0, 1}, {0, 2}) == Fault::structure);                                  //
    check(fault_of([&] { (void)rows_of({0}, {3}, {2, 1}); }).fault == Fault::structure); // no such level
    check(fault({0}, {3, 1}) == Fault::truncated && fault({0}, {3, 3}) == Fault::truncated);
}

// Rows of random lists, in runs of any form.
void test_many_rows() {
    std::mt19937 random(5);
    for (const LevelForm& form : {LevelForm{3, 1}, LevelForm{2, 0}, LevelForm{2, 1}, LevelForm{7, 5}})
        for (int turn = 0; turn < 100; ++turn) {
            Numbers again, levels, starts, nulls;
            std::uint32_t values = 0;
            const auto empty = static_cast<std::uint32_t>(form.empty);
            for (std::size_t list = random() % 300; list-- > 0;) {
                starts.push_back(values);
                const std::size_t size = random() % 3 == 0 ? 0 : 1 + random() % (turn % 2 == 0 ? 3 : 400);
                if (size == 0) levels.push_back(static_cast<std::uint32_t>(random()) % (empty + 1));
                for (std::size_t i = 0; i < size; ++i) {
                    const std::uint32_t below = form.most - empty - 1;
                    levels.push_back(form.most - (random() % 4 == 0 ? below : 0));
                    if (levels.back() < form.most) nulls.push_back(values);
                    ++values;
                }
                again.insert(again.end(), std::max<std::size_t>(size, 1), 1);
                again[levels.size() - std::max<std::size_t>(size, 1)] = 0;
            }
            const auto in_runs = [&](Numbers some, unsigned width) {
                Buffer runs;
                if (turn % 3 == 0) {
                    for (const std::uint32_t number : some) put_equal(runs, 1, number, width);
                } else if (!some.empty()) {
                    some.resize((some.size() + 7) / 8 * 8);
                    put_varint(runs, some.size() / 8 << 1 | 1);
                    put_packed(runs, some, width);
                }
                return runs;
            };
            const Packed repeated(in_runs(again, 1));
            const Packed defined(in_runs(levels, static_cast<unsigned>(std::bit_width(form.most))));
            PageRows rows;
            read_rows(repeated.bytes(), defined.bytes(), levels.size(), form, rows);
            check(rows.starts == starts && rows.nulls == nulls && rows.values == values);
            check(rows.ends_empty == (!levels.empty() && levels.back() <= empty));
        }
}

void test_levels_below() {
    std::mt19937 random(6);
    for (const std::uint32_t most : {1, 3, 7})
        for (int turn = 0; turn < 100; ++turn) {
            const auto width = static_cast<unsigned>(std::bit_width(most));
            const Runs runs = make_runs(random, width, 1 + random() % 900);
            const std::size_t count = random() % (runs.numbers.size() + 1);
            Numbers below, found{77};
            for (std::uint32_t i = 0; i < count; ++i)
                if (runs.numbers[i] < most) below.push_back(i);
            const Packed held(runs.bytes);
            find_below(held.bytes(), most, count, found);
            check(found.front() == 77 && std::ranges::equal(std::span(found).subspan(1), below));
        }
    Numbers found;
    const Packed few("06 01"), large("04 03");
    check(fault_of([&] { find_below(few.bytes(), 2, 4, found); }).fault == Fault::truncated);
    check(fault_of([&] { find_below(large.bytes(), 2, 2, found); }).fault == Fault::structure);
}

// A run of equal levels has a whole byte for each, which may hold more than there are levels.
void test_levels_of_no_meaning() {
    Numbers found;
    const Packed large("04 02");
    check(fault_of([&] { find_zeros(large.bytes(), 2, found); }).fault == Fault::structure);
    check(fault_of([&] { (void)rows_of({0, 2}, {3, 3}, {3, 1}); }).fault == Fault::structure);
    check(fault_of([&] { (void)rows_of({0, 2, 0}, {3, 3, 1}, {3, 1}); }).fault == Fault::structure);
}

} // namespace

int main() {
    test_unpack();
    test_runs();
    test_hostile_runs();
    test_levels();
    test_rows();
    test_many_rows();
    test_levels_below();
    test_levels_of_no_meaning();
}
