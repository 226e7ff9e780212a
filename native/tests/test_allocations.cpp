// Makes every allocation fail once, and thread creation too. Each call must still return its result or throw
// std::bad_alloc, without leaks, and the next call must give the usual result.
#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "check.hpp"
#include "core/base/permutation.hpp"
#include "core/base/spans.hpp"
#include "core/base/thread_team.hpp"
#include "core/csv/decode.hpp"
#include "core/csv/encode.hpp"
#include "core/csv/examine.hpp"
#include "core/engines/gzip/member.hpp"
#include "core/engines/gzip/parallel.hpp"
#include "core/engines/jpeg/decoder.hpp"
#include "core/engines/png/decoder.hpp"
#include "core/framing/npy_header.hpp"
#include "core/framing/recordio.hpp"
#include "core/framing/tfrecord.hpp"
#include "core/json/decode.hpp"
#include "core/json/encode.hpp"
#include "core/protobuf/example/decode.hpp"
#include "core/protobuf/example/encode.hpp"
#include "core/protobuf/example/scan.hpp"
#include "core/protobuf/record/decode.hpp"
#include "core/protobuf/record/encode.hpp"
#include "core/protobuf/record/scan.hpp"
#include "core/riegeli/array_record.hpp"
#include "core/riegeli/read.hpp"
#include "core/riegeli/recent.hpp"
#include "riegeli/files.hpp"
#include "samples.hpp"

#if defined(__linux__)
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

using namespace headrace;
using namespace headrace::testing;
using namespace std::literals;

namespace {

constexpr std::int64_t never = INT64_MAX;
std::atomic<std::int64_t> left{never}; // allocations until one fails
std::atomic<std::int64_t> balance{0};  // allocations not freed yet
std::atomic<bool> no_threads{false};

void* allocate(std::size_t size, std::size_t alignment) {
    if (left.load(std::memory_order_relaxed) != never && left.fetch_sub(1) == 0) throw std::bad_alloc();
    void* const found =
        std::aligned_alloc(alignment, (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment);
    if (found == nullptr) throw std::bad_alloc();
    balance.fetch_add(1, std::memory_order_relaxed);
    return found;
}

void release(void* memory) noexcept {
    if (memory == nullptr) return;
    balance.fetch_sub(1, std::memory_order_relaxed);
    std::free(memory);
}

} // namespace

// The other forms of new and delete call these.
void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
    return allocate(size, static_cast<std::size_t>(alignment));
}
// The standard library's own buffers, as those of std::stable_sort, which do without if there is no memory.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    try {
        return allocate(size, alignof(std::max_align_t));
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

#if defined(__linux__)
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument) {
    using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static const auto real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
    return no_threads.load() ? EAGAIN : real(thread, attributes, start, argument);
}
#endif

namespace {

/// One use of some part of the core. Checks the result.
struct Use {
    const char* name;
    void (*act)();
    bool has_threads = false; // which start, and allocate what they keep, at any time

    void run() const {
        try {
            act();
        } catch (const FormatError& error) { // The data is valid, however little memory there is.
            check(false, std::string(name) + ": fault " + std::to_string(static_cast<int>(error.fault)));
        }
    }
};

/// Fails allocation `k` (from 0). Returns whether it was requested; the result must be valid or std::bad_alloc.
bool fails_at(std::int64_t k, const Use& use) {
    left.store(k);
    try {
        use.run();
    } catch (const std::bad_alloc&) {}
    return left.exchange(never) < 0;
}

/// The first round also makes allocations that happen once per thread or process. The second round must not leak.
void fail_each(const Use& use) {
    std::int64_t k = 0;
    while (fails_at(k, use)) {
        use.run(); // It still works.
        ++k;
    }
    for (std::int64_t again = 0; again < k; ++again) {
        const std::int64_t before = balance.load();
        (void)fails_at(again, use);
        check(use.has_threads || balance.load() == before, use.name);
    }
}

#if defined(__linux__)
/// The same in new processes without threads, so that one-time allocations fail too.
void fail_each_from_the_start(const Use& use) {
    for (std::int64_t k = 0;; ++k) {
        const pid_t child = fork();
        if (child == 0) {
            const bool is_asked_for = fails_at(k, use);
            use.run();
            _exit(is_asked_for ? 0 : 2);
        }
        int status = 0;
        check(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status), use.name);
        if (WEXITSTATUS(status) == 2) return;
        check(WEXITSTATUS(status) == 0, use.name);
    }
}
#endif

const auto pool = std::make_shared<Pool>(0);

std::vector<std::byte> tfrecords() {
    std::vector<std::byte> file;
    for (const std::string_view payload : {"one"sv, ""sv, "three three three"sv}) {
        std::vector<std::byte> block(16 + payload.size());
        std::copy(bytes_of(payload).begin(), bytes_of(payload).end(), block.begin() + 12);
        const std::int64_t start = 12, size = static_cast<std::int64_t>(payload.size());
        tfrecord::frame(block, {&start, 1}, {&size, 1});
        file.insert(file.end(), block.begin(), block.end());
    }
    return file;
}

void read_tfrecords() {
    static const std::vector<std::byte> file = tfrecords();
    const Scan found = tfrecord::scan(file, 0, file.size(), true, 100);
    check(!found.faulty && found.starts.size() == 3);
    const Bytes files[] = {file};
    Spans spans;
    spans.payloads = tfrecord::gather(files, {}, found.starts, tfrecord::Checks::lengths);
    spans.seal = Seal::tfrecord;
    for (std::size_t i = 0; i < 3; ++i) spans.check(i);
    check(spans.payloads[2].size() == 17);
    check(tfrecord::find(file, 1) == 19);
    check(tfrecord::scan(Bytes(file).first(30), 0, 30, true, 100).faulty);
}

void read_recordio() {
    static const auto file =
        from_hex("0a23d7ce 03000020 61626300 0a23d7ce 01000060 64000000 0a23d7ce 02000000 65660000");
    recordio::Walks walks;
    const Scan found = recordio::scan(file, 0, file.size(), 100, &walks);
    check(!found.faulty && found.starts.size() == 2);
    check(recordio::find(file, 4, &walks) == 24);
    const recordio::Record record = recordio::record_at(file, 0);
    check(record.parts == 2 && record.joined_size(recordio::Join::plain) == 4);
}

constexpr auto example_hex = "0a180a160a016912111a0f0a0d01ffffffffffffffffff01ac02";

void read_examples() {
    static const auto payload = from_hex(example_hex);
    Spans spans;
    spans.payloads = {payload, payload, payload};
    for (const std::int64_t count : {std::int64_t{3}, std::int64_t{-1}}) {
        example::Spec spec;
        spec.name = "i";
        spec.kind = example::Kind::int64;
        spec.count = count;
        example::Spec text;
        text.name = "a feature with a long name that no record has";
        text.kind = example::Kind::bytes;
        const auto columns = example::Decoder({spec, text}).decode(spans, pool);
        check(columns[0].number_count == 9);
    }
    example::Scanner scanner;
    scanner.add(spans);
    check(scanner.is_message() && scanner.keys().size() == 1);
}

void write_examples() {
    static const std::array<float, 4> numbers{1, 2, 3, 4};
    example::Source source;
    source.name = "x";
    source.kind = example::Kind::float32;
    source.count = 2;
    source.numbers = reinterpret_cast<const std::byte*>(numbers.data());
    source.number_count = numbers.size();
    example::Source texts;
    texts.name = "a name that is too long for a short string";
    texts.kind = example::Kind::bytes;
    texts.count = 1;
    texts.texts = {bytes_of("a"), bytes_of("bc")};
    const proto::Payloads encoded = example::encode({source, texts}, 2, 12, 4, 1, pool);
    check(encoded.starts.size() == 2 && encoded.sizes[0] > 10);
}

void read_sagemaker_records() {
    static const auto sparse = from_hex(
        "0a1d0a0676616c756573 1213 1211 0a080000e04000000041 12020103 1a0104 12120a0676616c756573120812060a040000803f");
    static const auto dense =
        from_hex("0a160a0676616c756573120c120a0a080000803f00000040 12120a0676616c756573120812060a0400004040");
    using sagemaker::Layout;
    using sagemaker::Place;
    const sagemaker::Spec label{Place::label, "values", sagemaker::Kind::float32, Layout::fixed, 1, {}, true};
    for (const unsigned threads : {1U, 2U}) {
        Spans spans;
        spans.payloads = std::vector<Bytes>(20, sparse);
        const auto columns =
            sagemaker::Decoder(
                {{Place::feature, "values", sagemaker::Kind::float32, Layout::sparse, 4, {}, true}, label})
                .decode(spans, pool, threads, 1);
        check(columns[0].number_count == 40 && columns[1].number_count == 20);
        spans.payloads = {dense, dense};
        check(sagemaker::Decoder({{Place::feature, "values", sagemaker::Kind::float32, Layout::fixed, 2, {}, true}})
                  .decode(spans, pool)[0]
                  .number_count == 4);
        sagemaker::Scanner scanner;
        scanner.add(spans);
        check(scanner.records() == 2 && scanner.keys().size() == 2);
    }
}

void write_sagemaker_records() {
    static const std::array<float, 4> numbers{1, 2, 3, 4};
    sagemaker::Source source;
    source.key = "values";
    source.kind = sagemaker::Kind::float32;
    source.count = 2;
    source.numbers = reinterpret_cast<const std::byte*>(numbers.data());
    source.number_count = numbers.size();
    check(sagemaker::encode({source}, 2, 8, 3, 4, pool).starts.size() == 2);
}

constexpr auto rows = "1,\"a \"\"quoted\"\" text\",2.5\n2,plain,-1\n"sv;

void read_csv() {
    const csv::Dialect dialect;
    const Scan found = csv::scan(bytes_of(rows), 0, rows.size(), dialect, {3, true}, true, 100);
    check(!found.faulty && found.starts.size() == 2);
    const Bytes files[] = {bytes_of(rows)};
    Spans spans;
    spans.payloads = csv::gather(files, {}, found.starts, dialect);
    csv::Layout layout;
    layout.width = 3;
    layout.missing = csv::Words({"", "a word for what is missing"});
    check(csv::examine(spans, layout).size() == 3);
    std::vector<csv::Spec> specs(3);
    specs[0] = {0, csv::Kind::int64, false, 0, {}};
    specs[1] = {1, csv::Kind::text, true, 0, "a default that is longer than a short string"};
    specs[2] = {2, csv::Kind::float64, false, 0, {}};
    const csv::Decoded decoded = csv::Decoder(layout, specs).decode(spans, pool);
    const Bytes text = decoded.columns[1].texts.view().at(0);
    check(std::string_view(reinterpret_cast<const char*>(text.data()), text.size()) == "a \"quoted\" text");
    check(csv::fields_of(spans.payloads[0], dialect).size() == 3);
    check(csv::examine(files[0], found.starts, rows.size(), layout).size() == 3);
    const csv::Stretch together[] = {{files[0], 0, rows.size()}};
    check(csv::Decoder(layout, specs).decode(together, 2, pool).has_value());
}

void write_json() {
    static const std::vector<std::int64_t> numbers{1, 2, 3}, places{0, 2, 3}, ends{0, 1, 2};
    std::vector<json::Source> sources(2);
    sources[0] = {"\"a\"", json::Leaf::int64, {{0, places.data(), 2}}, std::as_bytes(std::span(numbers)), {}};
    sources[1] = {"\"b\"", json::Leaf::text, {}, {}, {bytes_of("xy"), ends}};
    const auto lines = json::encode(sources, 2, pool);
    check(lines && std::string_view(reinterpret_cast<const char*>(lines->block.data()), lines->size) ==
                       "{\"a\":[1,2],\"b\":\"x\"}\n{\"a\":[3],\"b\":\"y\"}\n");
}

void read_json() {
    std::vector<json::Spec> specs(3);
    specs[0].path = {"a key that is longer than a short string"};
    specs[0].depth = 1;
    specs[1].path = {"x"};
    specs[1].kind = json::Kind::float64;
    specs[2].path = {"t"};
    constexpr auto line =
        R"({"t": "an \u00e9scaped text of some length", "x": 1.5, "a key that is longer than a short string": ["b"]})"sv;
    const auto columns = json::Decoder(specs).decode({bytes_of(line), bytes_of(line)}, pool);
    check(columns && columns->front().values == 2);
}

void write_csv() {
    csv::Source source;
    source.texts = {"a", "b,c"};
    const std::vector<char> text = csv::encode(std::span(&source, 1), 2, {}, "\n");
    check(std::string_view(text.data(), text.size()) == "a\n\"b,c\"\n");
}

void read_npy_header() {
    static const std::string file = "\x93NUMPY\x01\0\x76\0"s +
                                    "{'descr': [('a field with a long name', '<f4', (2, 3)), ('b', '<i8')], "
                                    "'fortran_order': False, 'shape': (3, 4), }" +
                                    std::string(6, ' ');
    const npy::Header header = npy::parse(bytes_of(file), 10000);
    check(header.shape == std::vector<std::uint64_t>{3, 4} && header.descr.items.size() == 2);
}

constexpr auto png =
    "\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122\000\000\000\003\000\000\000\002\010\000\000\000"
    "\000\270\037\071\306\000\000\000\003\164\105\130\164\141\000\142\334\111\242\073\000\000\000\005\111\104\101\124"
    "\170\234\143\110\114\177\343\021\024\000\000\000\013\111\104\101\124\112\146\110\111\115\003\000\011\106\002\126"
    "\315\306\075\153\000\000\000\000\111\105\116\104\256\102\140\202"sv;

void read_png() {
    PngReader reader(bytes_of(png).first(PngReader::head_bytes), {2, 3, 1});
    std::array<std::byte, 6> out{};
    check(reader.read(bytes_of(png), out.data()) && out[5] == std::byte{'f'});
}

/// A grey image of 8 x 8 equal samples.
std::vector<std::byte> grey_jpeg() {
    std::string file = "\xFF\xD8\xFF\xDB"s + "\0\x43\0"s + std::string(64, '\1');
    file += "\xFF\xC0\0\x0B\x08\0\x08\0\x08\1\1\x11\0"s;
    for (const char kind : {'\0', '\x10'}) file += "\xFF\xC4\0\x14"s + kind + "\1"s + std::string(15, '\0') + '\0';
    file += "\xFF\xDA\0\x08\1\1\0\0\x3F\0"s + "\x3F\xFF\xD9"s;
    const Bytes bytes = bytes_of(file);
    return {bytes.begin(), bytes.end()};
}

void read_jpeg() {
    static const std::vector<std::byte> file = grey_jpeg();
    const auto header = jpeg::plain_header(file);
    check(header && header->height == 8);
    std::array<std::uint8_t, 64> out{};
    jpeg::Decoder decoder(jpeg::plain_kernels());
    check(decoder.decode(file, *header, out.data()) && out[63] == 128);
    decoder.shrink();
}

/// Chunks of one record and of two, compressed and not, and one that block headers interrupt.
const FileMaker& riegeli_file() {
    static const FileMaker made = [] {
        FileMaker maker;
        const std::string values = "9003 "s + zstd_frame_of_400; // 400 bytes
        const auto one = from_hex("7a 0c 02 28b52ffd 20 02 110000 9003" + values),
                   two = from_hex("7a 0d 03 28b52ffd 20 03 190000 8f0301" + values);
        for (int i = 0; i < 200; ++i) {
            (void)maker.put_data(riegeli::ChunkType::simple, 1, 400, one);
            (void)maker.put_data(riegeli::ChunkType::simple, 2, 400, two); // on another decompression path
        }
        (void)maker.put_records({"first", "second"});
        return maker;
    }();
    return made;
}

void open_chunks(unsigned threads) {
    const auto& file = riegeli_file().file;
    const riegeli::ChunkScan found = riegeli::scan_chunks(file, 0, 1000, true);
    check(!found.faulty && found.chunks.size() == 402);
    std::vector<std::int64_t> begins;
    for (const riegeli::ChunkHeader& header : found.chunks)
        if (header.num_records != 0) begins.push_back(static_cast<std::int64_t>(header.begin));
    riegeli::Chunks chunks(pool, file, {begins, {}, 1 << 20, true, riegeli::most_decoded_bytes, threads});
    while (!chunks.jobs().empty()) chunks.advance();
    check(chunks.records().size() == 602 && chunks.records()[0].size() == 400 && chunks.records()[601].size() == 6);
}

void open_grouped(unsigned threads) {
    const auto& file = riegeli_file().file;
    std::vector<riegeli::GroupedPart> parts;
    // A few, since each allocation fails once, and then all is done again; the one across the end of a block among
    // them.
    constexpr std::uint64_t block = std::uint64_t{1} << 16, chunk = 200;
    std::size_t number = 0;
    for (const riegeli::ChunkHeader& header : riegeli::scan_chunks(file, 0, 1000, false).chunks)
        if (header.num_records != 0 && (number++ % 8 == 0 || header.begin % block > block - chunk))
            parts.push_back({file, header.begin, header.num_records, true, header.num_records - 1});
    riegeli::open_parts(pool, parts, UINT64_MAX, threads);
    riegeli::reach_parts(parts, false, threads);
    riegeli::RecentChunks recent(20'000);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        check(parts[i].is_here);
        recent.keep(i, parts[i].chunk);
        check(recent.reserve(parts[i].chunk.get()));
    }
    check(recent.size() > 5 && recent.find(parts.size() - 1) != nullptr);
}

void open_transposed() {
    static const auto data = from_hex(transposed_chunk);
    riegeli::Transposed chunk(data);
    chunk.header().decoded = chunk.header().stored;
    chunk.parse_header();
    std::vector<std::byte> output(66);
    std::vector<Bytes> found;
    chunk.assemble(5, output, found);
    check(found.size() == 5);
}

void write_chunks() {
    FileMaker maker;
    (void)maker.put_records({std::string(70'000, 'x'), "end"});
    check(maker.file.size() > 70'000);
    array_record::Footer footer;
    footer.num_records = 64;
    footer.options = "options that are longer than a short string";
    footer.offsets = footer.decoded_sizes = footer.record_counts = {64};
    const array_record::EncodedFooter encoded = array_record::encode_footer(footer);
    std::vector<Bytes> records;
    std::size_t at = 0;
    for (const std::int64_t size : encoded.sizes) {
        records.push_back(Bytes(encoded.values).subspan(at, static_cast<std::size_t>(size)));
        at += static_cast<std::size_t>(size);
    }
    check(array_record::parse_footer(records).options == footer.options);
    check(array_record::parse_postscript(array_record::encode_postscript(64)) == 64);
}

const std::vector<std::byte> gzip_member = from_hex(gzip_member_of_500);

const std::vector<std::byte>& gzip_file() {
    static const std::vector<std::byte> file = [] {
        std::vector<std::byte> members;
        for (int i = 0; i < 20; ++i) members.insert(members.end(), gzip_member.begin(), gzip_member.end());
        return members;
    }();
    return file;
}

/// 20 members of 500 bytes each, in several parts. After a failure, as many as came before it.
void inflate_gzip(unsigned threads) {
    const std::vector<std::byte>& file = gzip_file();
    GzipInflater inflater(300, threads, 500);
    std::size_t at = 0, size = 0;
    while (inflater.state() == GzipInflater::State::going && (inflater.has_room() || inflater.waiting() != 0)) {
        while (inflater.has_room()) {
            const bool last = file.size() - at <= inflater.own() + inflater.margin();
            const std::size_t own = last ? file.size() - at : inflater.own();
            inflater.give(Bytes(file).subspan(at, last ? own : own + inflater.margin()), own, last);
            at += own;
        }
        for (const GzipInflater::Piece& piece : inflater.take()) size += piece.bytes.size();
    }
    check(inflater.state() == GzipInflater::State::done && size == 20 * 500);
}

/// Retries `give` and `take` after failures. The data must come out in order, or the inflater must refuse it.
void inflate_gzip_stubbornly() {
    GzipInflater inflater(8192, 1, 500);
    for (bool is_given = false; !is_given;) {
        try {
            inflater.give(gzip_member, gzip_member.size(), true);
            is_given = true;
        } catch (const std::bad_alloc&) {
            check(inflater.has_room() && inflater.waiting() == 0);
        }
    }
    std::size_t size = 0;
    while (inflater.waiting() != 0) {
        try {
            for (const GzipInflater::Piece& piece : inflater.take()) size += piece.bytes.size();
        } catch (const std::bad_alloc&) {}
    }
    check(size == 500 || (size == 0 && inflater.state() == GzipInflater::State::refused));
}

void take_blocks() {
    const auto kept = std::make_shared<Pool>(std::size_t{1} << 20);
    {
        const Pool::Block small = kept->take(100), large = kept->take(100'000);
        check(small.capacity() >= 100 && large.capacity() >= 100'000);
    }
    { const Pool::Block again = kept->take(100'000); }
    check(kept->stats().used_bytes == 0 && kept->stats().taken == 3);
}

void work_as_a_team() {
    std::vector<int> seen(1000);
    ThreadTeam::shared().run(seen.size(), 3, 4, [&](std::size_t begin, std::size_t end) {
        const std::vector<int> ones(end - begin, 1); // Work may allocate too.
        for (std::size_t i = 0; begin < end; ++begin, ++i) seen[begin] += ones[i];
    });
    check(seen == std::vector<int>(1000, 1));
}

void permute() {
    std::array<std::int64_t, 100> out{};
    Permutation(100, 1, 2).fill(0, out);
    check(out[0] != out[1]);
}

const std::vector<Use> uses = {
    {"tfrecord", read_tfrecords},
    {"recordio", read_recordio},
    {"tf_example read", read_examples},
    {"tf_example written", write_examples},
    {"sagemaker_record read", read_sagemaker_records, true},
    {"sagemaker_record written", write_sagemaker_records},
    {"csv read", read_csv},
    {"json read", read_json},
    {"json write", write_json},
    {"csv written", write_csv},
    {"npy header", read_npy_header},
    {"png", read_png},
    {"jpeg", read_jpeg},
    {"chunks", [] { open_chunks(1); }},
    {"chunks on threads", [] { open_chunks(3); }, true},
    {"chunks of many records", [] { open_grouped(1); }},
    {"chunks of many records on threads", [] { open_grouped(3); }, true},
    {"transposed chunk", open_transposed},
    {"chunks written", write_chunks},
    {"gzip", [] { inflate_gzip(1); }, true},
    {"gzip on threads", [] { inflate_gzip(3); }, true},
    {"gzip after a failure", inflate_gzip_stubbornly, true},
    {"pool", take_blocks},
    {"team", work_as_a_team, true},
    {"permutation", permute},
};

} // namespace

int main() {
    (void)riegeli_file();
    (void)gzip_file();
#if defined(__linux__)
    for (const Use& use : uses)
        if (use.has_threads || use.name == "chunks"sv) fail_each_from_the_start(use);
    no_threads.store(true);
    for (const Use& use : uses) use.run();
    no_threads.store(false);
#endif
    for (const Use& use : uses) fail_each(use);
}
