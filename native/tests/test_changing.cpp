// Reads memory while it changes, as a mapped file's may. Whatever the result, nothing may be written outside the
// reserved memory, which the sanitizers check. Where one call reads the bytes twice, a thread keeps changing them. (Not
// for ThreadSanitizer: this is a race.)
#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "check.hpp"
#include "core/csv/decode.hpp"
#include "core/csv/examine.hpp"
#include "core/framing/recordio.hpp"
#include "core/protobuf/example/decode.hpp"
#include "core/protobuf/example/encode.hpp"
#include "core/protobuf/record/encode.hpp"
#include "core/protobuf/record/rows.hpp"

using namespace headrace;
using headrace::testing::check;
using headrace::testing::fault_of;

namespace {

const auto pool = std::make_shared<Pool>(std::size_t{1} << 20);

Bytes bytes_of(const std::vector<unsigned char>& bytes) { return std::as_bytes(std::span(bytes)); }

/// Keeps flipping the same bits of some bytes until it is destroyed.
class Changing {
  public:
    Changing(std::span<unsigned char> bytes, unsigned char bits)
        : thread_([this, bytes, bits] {
              for (; !stop_.load(std::memory_order_relaxed); rounds_.fetch_add(1, std::memory_order_relaxed))
                  for (unsigned char& byte : bytes) std::atomic_ref(byte).fetch_xor(bits, std::memory_order_relaxed);
          }) {}
    ~Changing() {
        stop_ = true;
        thread_.join();
    }

    [[nodiscard]] std::size_t rounds() const noexcept { return rounds_.load(std::memory_order_relaxed); }

  private:
    std::atomic<bool> stop_ = false;
    std::atomic<std::size_t> rounds_ = 0;
    std::thread thread_;
};

/// Repeats `act` while all bytes change `times` times.
template <typename Act> void again_and_again(const Changing& thread, Act&& act, std::size_t times = 30'000) {
    for (const std::size_t enough = thread.rounds() + times; thread.rounds() < enough;) {
        try {
            act();
        } catch (const FormatError&) { // Any fault is fine.
        }
    }
}

void a_recordio_part_grows() {
    std::vector<unsigned char> file;
    const auto part = [&](std::uint32_t flag, std::size_t size) {
        std::array<std::uint32_t, 2> head{recordio::magic, flag << 29 | static_cast<std::uint32_t>(size)};
        const auto bytes = std::as_bytes(std::span(head));
        for (const std::byte byte : bytes) file.push_back(std::to_integer<unsigned char>(byte));
        file.insert(file.end(), recordio::padded(size), 'x');
    };
    part(1, 4);
    part(2, 40); // The second read finds this size.
    part(3, 4);
    for (const recordio::Join join : {recordio::Join::magic, recordio::Join::plain}) {
        for (const std::uint32_t before : {4U, 40U}) {
            auto changed = file;
            store_le(reinterpret_cast<std::byte*>(changed.data()) + 16, std::uint32_t{2U << 29} | before);
            // Where it is short, the last part would begin near its end.
            if (before == 4) std::copy_n(file.end() - 12, 12, changed.begin() + 24);
            const recordio::Record record = recordio::record_at(bytes_of(changed), 0);
            std::vector<std::byte> to(record.joined_size(join));
            recordio::join_parts(bytes_of(changed), record, join, to);
            store_le(reinterpret_cast<std::byte*>(changed.data()) + 16,
                     std::uint32_t{2U << 29} | (before == 4 ? 40U : 4U));
            if (before == 40) std::copy_n(file.end() - 12, 12, changed.begin() + 24);
            const FormatError fault = fault_of([&] { recordio::join_parts(bytes_of(changed), record, join, to); });
            check(fault.fault == Fault::changed && fault.offset == 0);
        }
    }
}

void counts_in_a_record_change() {
    for (const bool grow : {true, false}) { // Two two-byte numbers become four one-byte ones, or the reverse.
        const unsigned char first = grow ? 0x81 : 0x01;
        std::vector<unsigned char> numbers{first, 0x01, first, 0x01};
        sagemaker::Tensor tensor;
        tensor.kind = sagemaker::Kind::int32;
        tensor.values = {bytes_of(numbers)};
        std::vector<std::byte> to(sagemaker::count_values(tensor) * sizeof(std::int32_t));
        sagemaker::copy_values(tensor, to);
        numbers[0] ^= 0x80, numbers[2] ^= 0x80;
        check(fault_of([&] { sagemaker::copy_values(tensor, to); }).fault == Fault::changed);
    }
}

void counts_in_an_example_change() {
    std::vector<unsigned char> list;
    for (int run = 0; run < 2; ++run) { // in two packed runs, which are counted first
        list.insert(list.end(), {0x0A, 100});
        list.insert(list.end(), 100, 1);
    }
    const Changing thread(std::span<unsigned char>(list).subspan(110, 80), 0x80);
    const example::List values{example::Kind::int64, {bytes_of(list), bytes_of(list).data()}, {}};
    again_and_again(thread, [&] {
        const std::size_t count = example::count_values(values);
        const auto to = std::make_unique<std::byte[]>(count * sizeof(std::int64_t));
        (void)example::read_numbers(values, example::Kind::int64, count, to.get());
    });
}

void varints_grow_while_they_are_written() {
    std::vector<unsigned char> numbers(8 * 64, 0);
    const std::vector<std::int64_t> keys(64, 1);
    const Changing thread(numbers, 0xFF); // 0 and -1: one byte and ten
    const auto* const data = bytes_of(numbers).data();
    again_and_again(thread, [&] {
        example::Source source;
        source.name = "x", source.kind = example::Kind::int64, source.count = 64;
        source.numbers = data, source.number_count = 64;
        const auto encoded = example::encode({source}, 1, 0, 0, 1, pool);
        check(static_cast<std::size_t>(encoded.sizes[0]) <= encoded.size);
    });
    again_and_again(thread, [&] {
        sagemaker::Source source{.place = sagemaker::Place::feature,
                                 .key = "x",
                                 .kind = sagemaker::Kind::int32,
                                 .count = 64,
                                 .numbers = data,
                                 .number_count = 64};
        (void)sagemaker::encode({source}, 1, 0, 0, 1, pool);
    });
    again_and_again(thread, [&] {
        std::vector<float> ones(64, 1.0F);
        sagemaker::Source source{
            .place = sagemaker::Place::feature, .key = "x", .kind = sagemaker::Kind::float32, .count = 64};
        source.numbers = std::as_bytes(std::span(ones)).data(), source.number_count = 64;
        source.sparse = source.wide_keys = true, source.keys = data, source.key_count = 64,
        source.width = UINT64_MAX >> 1;
        (void)sagemaker::encode({source}, 1, 0, 0, 1, pool);
    });
}

void fields_of_a_row_disappear() {
    std::vector<unsigned char> row(40, ',');
    const Changing thread(std::span<unsigned char>(row).subspan(20), ',' ^ '"');
    csv::Layout layout;
    layout.width = 41;
    Spans spans;
    spans.payloads = {bytes_of(row)};
    again_and_again(thread, [&] { (void)csv::examine(spans, layout); });
}

void quotes_of_a_row_come_and_go() {
    static constexpr std::string_view row = "\"a \"\"word\"\" of a text\",12345,2.5,\"x\"\n";
    std::vector<unsigned char> text;
    for (int k = 0; k < 60; ++k) text.insert(text.end(), row.begin(), row.end());
    const auto pool = std::make_shared<Pool>(std::size_t{1} << 20);
    csv::Layout layout;
    layout.width = 4;
    const csv::Decoder decoder(layout, {{0, csv::Kind::text, false, 0, ""},
                                        {1, csv::Kind::int64, false, 0, ""},
                                        {2, csv::Kind::float64, false, 0, ""},
                                        {3, csv::Kind::text, true, 0, "default"}});
    const csv::Stretch stretches[] = {{bytes_of(text), 0, text.size()}};
    std::vector<std::int64_t> starts;
    for (std::size_t k = 0; k < 60; ++k) starts.push_back(static_cast<std::int64_t>(k * row.size()));
    for (const unsigned char change : {'"' ^ 'x', ',' ^ '"', '\n' ^ '"'}) {
        const Changing thread(std::span<unsigned char>(text).subspan(row.size()), change);
        again_and_again(thread, [&] { (void)decoder.decode(stretches, 60, pool); });
        again_and_again(thread, [&] { (void)csv::examine(bytes_of(text), starts, text.size(), layout); });
    }
}

void a_row_gains_a_leading_line_end() {
    static constexpr std::string_view row = ",12345,text\n";
    std::vector<unsigned char> text;
    for (int k = 0; k < 60; ++k) text.insert(text.end(), row.begin(), row.end());
    csv::Layout layout;
    layout.width = 3;
    const csv::Decoder decoder(layout, {{0, csv::Kind::text, false, 0, ""}, {1, csv::Kind::int64, false, 0, ""}});
    const csv::Stretch stretches[] = {{bytes_of(text), 0, text.size()}};
    const Changing thread(std::span<unsigned char>(text).subspan(30 * row.size(), 1), ',' ^ '\n');
    again_and_again(thread, [&] { (void)decoder.decode(stretches, 60, pool); }, 10'000'000);
}

} // namespace

int main() {
    a_recordio_part_grows();
    counts_in_a_record_change();
    counts_in_an_example_change();
    varints_grow_while_they_are_written();
    fields_of_a_row_disappear();
    quotes_of_a_row_come_and_go();
    a_row_gains_a_leading_line_end();
}
