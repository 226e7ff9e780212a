#include "core/parquet/column.hpp"

#include <algorithm>
#include <utility>

#include "core/checksum/crc32.hpp"
#include "core/engines/gzip/whole.hpp"
#include "core/engines/zstd/decoder.hpp"
#include "core/parquet/snappy.hpp"

namespace headrace::parquet {
namespace {

enum Codec : std::int64_t { none = 0, snappy = 1, gzip = 2, zstd = 6 };
enum PhysicalType : std::int64_t { float_number = 4, double_number = 5 };

// Writers make pages of about a megabyte.
constexpr std::uint64_t most_page_bytes = 256 << 20;
constexpr std::uint64_t most_page_levels = 16 << 20;
constexpr std::uint64_t most_snappy_ratio = 22; // three bytes copy up to 64
constexpr std::uint64_t most_gzip_ratio = 1032; // two bits copy up to 258

[[noreturn]] void refuse(std::uint64_t at) { throw FormatError(Fault::structure, at); }

bool is_plausible(std::int64_t codec, std::uint64_t stored, std::uint64_t decoded) noexcept {
    if (codec == none) return stored == decoded;
    const std::uint64_t most = codec == snappy ? stored * most_snappy_ratio
                               : codec == gzip ? stored * most_gzip_ratio
                                               : (stored / 4 + 1) * headrace::zstd::most_block_bytes;
    return decoded <= std::min(most, most_page_bytes);
}

bool decompress(std::int64_t codec, Bytes stored, std::span<std::byte> target) {
    if (codec == snappy) return decompress_snappy(stored, target);
    if (codec == gzip) {
        thread_local const auto inflater = std::make_unique<deflate::WholeInflater>();
        return inflater->inflate(stored, target);
    }
    thread_local const auto decoder = std::make_unique<headrace::zstd::Decoder>();
    return decoder->decompress(stored, target);
}

// Levels in a page of the first version: their size in front.
Bytes take_levels(Cursor& cursor) {
    const auto size = cursor.le<std::uint32_t>();
    return cursor.take(size);
}

Bytes rest_of(Cursor& cursor) { return cursor.take(cursor.remaining()); }

} // namespace

ColumnReader::ColumnReader(std::shared_ptr<Pool> pool, Bytes file, std::vector<ColumnChunk> chunks,
                           const ColumnForm& form)
    : pool_(std::move(pool)),
      file_(file),
      chunks_(std::move(chunks)),
      form_(form) {
    for (const ColumnChunk& chunk : chunks_) {
        if (chunk.codec != none && chunk.codec != snappy && chunk.codec != gzip && chunk.codec != zstd) refuse(0);
        const auto begin = static_cast<std::uint64_t>(chunk.begin), size = static_cast<std::uint64_t>(chunk.size);
        // The footer is behind all pages, so there is room to read a little beyond them.
        if (chunk.begin < 0 || chunk.size < 0 || chunk.rows < 0 || chunk.levels < chunk.rows || begin > file.size() ||
            size > file.size() - begin || file.size() - begin - size < page_slack ||
            (chunk.levels != chunk.rows && !form.levels.has_lists()))
            refuse(begin);
    }
    if (form.values.is_bit()) {
        Pool::Block both = pool_->take(2 * sizeof(std::uint32_t) + page_slack);
        store_le(both.data(), std::uint32_t{0});
        store_le(both.data() + sizeof(std::uint32_t), std::uint32_t{1});
        bits_ = std::make_shared<const Dictionary>(std::move(both), 2 * sizeof(std::uint32_t), 2, ValueForm{4, 1});
    }
}

void ColumnReader::next_chunk() {
    if (chunk_ == chunks_.size()) refuse(file_.size());
    const ColumnChunk& chunk = chunks_[chunk_++];
    const auto begin = static_cast<std::size_t>(chunk.begin);
    pages_left_ = Cursor(file_.subspan(begin, static_cast<std::size_t>(chunk.size)), begin);
    codec_ = chunk.codec;
    type_ = chunk.type;
    levels_left_ = static_cast<std::uint64_t>(chunk.levels);
    rows_left_ = static_cast<std::uint64_t>(chunk.rows);
    is_first_page_ = true;
    ends_empty_ = false;
    dictionary_.reset();
}

void ColumnReader::load_page() {
    if (levels_left_ == 0) return next_chunk();
    const PageHeader header = read_page_header(pages_left_);
    const Bytes stored = pages_left_.take(header.stored_bytes);
    if (form_.verify && header.crc && crc32(stored) != *header.crc)
        throw FormatError(Fault::payload_checksum, pages_left_.offset() - stored.size());
    if (header.type == PageType::dictionary) load_dictionary(header, stored);
    else if (header.type != PageType::index) load_values(header, stored);
}

ColumnReader::Decoded ColumnReader::decode(Bytes stored, std::uint64_t size, bool in_place) const {
    if (!is_plausible(codec_, stored.size(), size)) refuse(pages_left_.offset());
    if (codec_ == none && in_place) return {{}, stored};
    Decoded decoded{pool_->take(size + page_slack), {}};
    const std::span<std::byte> target(decoded.block.data(), size);
    if (codec_ == none) {
        if (size != 0) std::memcpy(target.data(), stored.data(), size);
    } else if (size != 0 && !decompress(codec_, stored, target)) {
        refuse(pages_left_.offset());
    }
    decoded.bytes = target;
    return decoded;
}

void ColumnReader::load_dictionary(const PageHeader& header, Bytes stored) {
    const bool is_plain = header.encoding == Encoding::plain || header.encoding == Encoding::plain_dictionary;
    if (form_.values.is_bit() || dictionary_ || !is_first_page_ || !is_plain) refuse(pages_left_.offset());
    Decoded decoded = decode(stored, header.decoded_bytes, false);
    dictionary_ =
        std::make_shared<const Dictionary>(std::move(decoded.block), decoded.bytes.size(), header.values, form_.values);
}

void ColumnReader::load_values(const PageHeader& header, Bytes stored) {
    // pyarrow ends a column at a page without values, although it writes some.
    if (header.values == 0 || header.values > std::min(levels_left_, most_page_levels)) refuse(pages_left_.offset());
    // Texts are read twice: first for their sizes, then to copy as many bytes. So they must not change in between.
    const bool in_place = !form_.values.is_text();
    Page page;
    Bytes repetition, definition;
    if (header.type == PageType::data_v2) {
        Cursor cursor(stored);
        repetition = cursor.take(header.repetition_bytes);
        definition = cursor.take(header.definition_bytes);
        const std::uint64_t levels = header.repetition_bytes + header.definition_bytes;
        if (levels > header.decoded_bytes) refuse(pages_left_.offset());
        const std::int64_t codec = std::exchange(codec_, header.is_compressed ? codec_ : std::int64_t{none});
        Decoded decoded = decode(rest_of(cursor), header.decoded_bytes - levels, in_place);
        codec_ = codec;
        page.decoded = std::move(decoded.block);
        page.rest = decoded.bytes;
    } else {
        // Older writers name another encoding for levels that are not there.
        if ((form_.levels.has_lists() && header.repetition != Encoding::rle) ||
            (form_.levels.most > 0 && header.definition != Encoding::rle))
            refuse(pages_left_.offset());
        Decoded decoded = decode(stored, header.decoded_bytes, in_place);
        page.decoded = std::move(decoded.block);
        Cursor cursor(decoded.bytes);
        if (form_.levels.has_lists()) repetition = take_levels(cursor);
        if (form_.levels.most > 0) definition = take_levels(cursor);
        page.rest = rest_of(cursor);
    }
    count_rows(page, header, repetition, definition);
    open_values(page, header);
    loaded_ += form_.levels.has_lists() ? page.rows.starts.size() : page.values;
    if (!page.is_used_up()) pages_.push_back(std::move(page));
}

void ColumnReader::count_rows(Page& page, const PageHeader& header, Bytes repetition, Bytes definition) {
    std::uint64_t rows = header.values;
    if (form_.levels.has_lists()) {
        PageRows& found = page.rows;
        read_rows(repetition, definition, header.values, form_.levels, found);
        const std::uint64_t before = found.starts.empty() ? found.values : found.starts.front();
        if (before > 0 && (is_first_page_ || ends_empty_)) refuse(pages_left_.offset()); // They belong to no row.
        ends_empty_ = found.ends_empty;
        page.values = found.values;
        rows = found.starts.size();
    } else {
        page.values = header.values;
        if (form_.levels.most > 0 && !are_all(definition, form_.levels.most, header.values))
            find_below(definition, form_.levels.most, header.values, page.rows.nulls);
    }
    if (!page.rows.nulls.empty() && !form_.fill) refuse(pages_left_.offset());
    levels_left_ -= header.values;
    if (rows > rows_left_ || (levels_left_ == 0 && rows < rows_left_)) refuse(pages_left_.offset());
    rows_left_ -= rows;
    is_first_page_ = false;
}

void ColumnReader::open_values(Page& page, const PageHeader& header) const {
    const std::uint64_t present =
        page.values - page.rows.nulls.size(); // If there are none, the rest must fit nevertheless.
    if (form_.values.is_bit()) return open_bits(page, header, present);
    if (header.encoding == Encoding::plain) {
        const std::size_t each = form_.values.is_text() ? sizeof(std::uint32_t) : form_.values.stored;
        if (present > page.rest.size() / each) refuse(pages_left_.offset());
        return;
    }
    if (header.encoding == Encoding::byte_streams) {
        if (form_.values.is_text() || page.rest.size() % form_.values.stored != 0 ||
            present != page.rest.size() / form_.values.stored)
            refuse(pages_left_.offset());
        page.stride = static_cast<std::size_t>(present);
        return;
    }
    if (header.encoding == Encoding::deltas || header.encoding == Encoding::delta_lengths ||
        header.encoding == Encoding::delta_texts)
        return open_differences(page, header, present);
    const bool is_coded = header.encoding == Encoding::rle_dictionary || header.encoding == Encoding::plain_dictionary;
    if (!is_coded || !dictionary_ || (page.rest.empty() && present > 0)) refuse(pages_left_.offset());
    page.dictionary = dictionary_;
    if (page.rest.empty()) return;
    page.codes = HybridReader(page.rest.subspan(1), std::to_integer<unsigned>(page.rest[0]));
}

void ColumnReader::open_differences(Page& page, const PageHeader& header, std::uint64_t present) const {
    const bool is_number = header.encoding == Encoding::deltas;
    if (is_number == form_.values.is_text() || type_ == float_number || type_ == double_number)
        refuse(pages_left_.offset());
    if (!is_number) {
        page.delta_texts =
            std::make_unique<DeltaTexts>(page.rest, present, header.encoding == Encoding::delta_texts, most_page_bytes);
        return;
    }
    page.deltas = std::make_unique<DeltaReader>(page.rest, present, static_cast<unsigned>(form_.values.stored * 8));
    if (!page.deltas->rest().empty()) refuse(pages_left_.offset());
}

void ColumnReader::open_bits(Page& page, const PageHeader& header, std::uint64_t present) const {
    page.dictionary = bits_;
    if (header.encoding == Encoding::plain) {
        if ((present + 7) / 8 > page.rest.size()) refuse(pages_left_.offset());
        page.codes = HybridReader::of_bits(page.rest);
    } else if (header.encoding == Encoding::rle) {
        Cursor cursor(page.rest);
        page.codes = HybridReader(take_levels(cursor), 1);
    } else {
        refuse(pages_left_.offset());
    }
}

bool ColumnReader::has_rows(std::size_t rows) const noexcept {
    if (!form_.levels.has_lists()) return loaded_ >= rows;
    // A row ends where the next one begins, or with its chunk.
    return loaded_ > rows || (loaded_ == rows && levels_left_ == 0);
}

// How many values the next rows have, and where those of each begin.
std::uint64_t ColumnReader::find_rows(std::size_t rows, Pool::Block& offsets) {
    offsets = pool_->take((rows + 1) * sizeof(std::int64_t));
    std::byte* const to = offsets.data();
    std::uint64_t before = 0;
    std::size_t row = 0;
    for (Page& page : pages_) {
        const auto& starts = page.rows.starts;
        std::size_t next = page.next_row;
        for (; next < starts.size() && row <= rows; ++next, ++row)
            store_le(to + row * sizeof(std::int64_t), static_cast<std::int64_t>(before + starts[next] - page.used));
        page.next_row = next - (row > rows ? 1 : 0);
        if (row > rows) break;
        before += page.values - page.used;
    }
    if (row == rows) store_le(to + rows * sizeof(std::int64_t), static_cast<std::int64_t>(before));
    if (row < rows || load_le<std::int64_t>(to) != 0) refuse(pages_left_.offset());
    return load_le<std::uint64_t>(to + rows * sizeof(std::int64_t));
}

std::span<const std::uint32_t> ColumnReader::Page::nulls_until(std::uint64_t end) noexcept {
    const std::vector<std::uint32_t>& all = rows.nulls;
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(next_null);
    const auto last = std::lower_bound(first, all.end(), end);
    next_null = static_cast<std::size_t>(last - all.begin());
    return {first, last};
}

void ColumnReader::write_numbers(std::uint64_t count, std::byte* to) {
    const std::size_t wanted = form_.values.wanted;
    for (auto page = pages_.begin(); count > 0; ++page) {
        const std::uint64_t begin = page->used;
        const auto some = static_cast<std::size_t>(std::min(count, page->values - begin));
        page->used += some;
        const std::span<const std::uint32_t> nulls = page->nulls_until(page->used);
        write_present(*page, some - nulls.size(), to + nulls.size() * wanted);
        if (!nulls.empty()) spread(to, nulls, begin, *form_.fill);
        to += some * wanted;
        count -= some;
    }
}

void ColumnReader::write_present(Page& page, std::size_t count, std::byte* to) const {
    if (count == 0) return;
    if (page.deltas) {
        while (count > 0) {
            const std::span<const std::uint64_t> numbers = page.deltas->take(count);
            write_low_bits(numbers, form_.values, to);
            to += numbers.size() * form_.values.wanted;
            count -= numbers.size();
        }
        return;
    }
    if (page.stride != 0) {
        write_streams(page.rest.data(), page.stride, count, form_.values, to);
        page.rest = page.rest.subspan(count);
        return;
    }
    if (!page.dictionary) {
        write_plain(page.rest.data(), count, form_.values, to);
        page.rest = page.rest.subspan(count * form_.values.stored);
        return;
    }
    while (count > 0) {
        const std::span<const std::uint32_t> codes = page.codes.take(count);
        page.dictionary->write(codes, to);
        to += codes.size() * form_.values.wanted;
        count -= codes.size();
    }
}

template <typename To> void ColumnReader::add_texts(std::uint64_t count, To& to) {
    for (auto page = pages_.begin(); count > 0; ++page) {
        const std::uint64_t end = page->used + std::min(count, page->values - page->used);
        count -= end - page->used;
        for (const std::uint32_t null : page->nulls_until(end)) {
            add_present(*page, static_cast<std::size_t>(null - page->used), to);
            to.add(*form_.fill);
            page->used = std::uint64_t{null} + 1;
        }
        add_present(*page, static_cast<std::size_t>(end - page->used), to);
        page->used = end;
    }
}

template <typename To> void ColumnReader::add_present(Page& page, std::size_t count, To& to) {
    if (page.delta_texts && count > 0) return to.add_deltas(*page.delta_texts, count);
    if (!page.dictionary) return to.add_plain(page.rest, count);
    while (count > 0) {
        const std::span<const std::uint32_t> codes = page.codes.take(count);
        to.add_codes(codes, page.dictionary);
        count -= codes.size();
    }
}

// Whether the texts of the next values may take far more bytes than the pages that hold them.
bool ColumnReader::may_recur(std::uint64_t count) const noexcept {
    double usual = 0, most = 0; // The file may declare any number.
    const auto all = static_cast<double>(count);
    for (auto page = pages_.begin(); count > 0; ++page) {
        const std::uint64_t some = std::min(count, page->values - page->used);
        count -= some;
        if (!page->dictionary) continue;
        usual += static_cast<double>(some) * static_cast<double>(page->dictionary->average());
        most += static_cast<double>(some) * static_cast<double>(page->dictionary->longest());
    }
    const RecurringLimits& limits = form_.recurring;
    return most > static_cast<double>(limits.most_bytes) ||
           (usual >= static_cast<double>(limits.least_bytes) && usual >= all * static_cast<double>(limits.least_each));
}

void ColumnReader::read_texts(Rows& found) {
    if (!may_recur(found.values)) {
        std::size_t plain = 0; // bytes, a guess
        for (const Page& page : pages_) plain += page.dictionary ? 0 : page.rest.size();
        AllTexts texts(StringsBuilder(pool_, found.values, plain));
        add_texts(found.values, texts);
        found.texts = texts.finish();
        return;
    }
    RecurringTexts texts(pool_, found.values, form_.recurring);
    add_texts(found.values, texts);
    if (texts.is_worth_it()) {
        found.texts = texts.finish();
        found.codes = texts.take_codes();
    } else {
        found.texts = texts.write_out();
    }
}

void ColumnReader::drop_used() {
    while (!pages_.empty() && pages_.front().is_used_up()) pages_.pop_front();
}

ColumnReader::Rows ColumnReader::read(std::size_t rows) {
    Rows found;
    found.rows = rows;
    while (!has_rows(rows)) load_page();
    found.values = form_.levels.has_lists() ? find_rows(rows, found.offsets) : rows;
    if (form_.values.is_text()) {
        read_texts(found);
    } else {
        found.numbers = pool_->take(std::max<std::size_t>(found.values * form_.values.wanted, 1));
        write_numbers(found.values, found.numbers.data());
    }
    loaded_ -= rows;
    drop_used();
    return found;
}

} // namespace headrace::parquet
