#include "core/protobuf/record/rows.hpp"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "core/base/mapped_files.hpp"
#include "core/protobuf/varints.hpp"

namespace headrace::sagemaker {
namespace {

[[noreturn]] void fail(Fault fault, std::uint64_t expected = 0, std::uint64_t found = 0) {
    throw FormatError(fault, 0, expected, found);
}

bool agrees(std::int64_t wanted, std::uint64_t found) { return wanted < 0 || std::cmp_equal(wanted, found); }

/// Minimum size on the wire of a number, and of its key if it has one.
std::size_t least_size(const Spec& spec) {
    const std::size_t number = spec.kind == Kind::float32 ? 4 : spec.kind == Kind::float64 ? 8 : 1;
    return number + (spec.layout == Layout::sparse ? 1 : 0);
}

constexpr std::size_t most_keys_at_once = std::size_t{1} << 16; // their 64-bit copies take as much as the cache has

/// Copies `count` keys of one piece to `to`, many at a time. `wide` is memory for this. False, if they have to be
/// copied one by one, which also finds the fault if there is one.
template <typename Key>
bool copy_many_keys(Bytes piece, std::uint64_t width, std::size_t count, std::vector<std::uint64_t>& wide, Key* to) {
    if (count > most_keys_at_once) return false;
    if (wide.size() < count) wide.resize(std::max(count, 2 * wide.size()));
    if (proto::decode_varints(piece, reinterpret_cast<std::byte*>(wide.data()), count) != count) return false;
    std::uint64_t seen = 0, below = UINT64_MAX; // The highest bit of `below` stays if every key is less than `width`.
    for (std::size_t i = 0; i < count; ++i) {
        seen |= wide[i];
        below &= wide[i] - width;
        to[i] = static_cast<Key>(wide[i]);
    }
    return ((below & ~seen) >> 63) != 0;
}

/// Copies `count` keys to `to`. Each must be below `width`, which is at most INT64_MAX.
template <typename Key>
void copy_keys(const Pieces& pieces, std::uint64_t width, std::size_t count, std::vector<std::uint64_t>& wide,
               Key* to) {
    if (pieces.size() == 1 && copy_many_keys(pieces.front(), width, count, wide, to)) return;
    Key* const end = to + count;
    each_varint(pieces, [&](std::uint64_t key) {
        if (to == end) fail(Fault::tensor);
        if (key >= width) fail(Fault::range, width, key);
        *to++ = static_cast<Key>(key);
    });
    if (to != end) fail(Fault::tensor);
}

} // namespace

void grow(Pool::Block& block, std::size_t size, std::size_t used, const std::shared_ptr<Pool>& pool) {
    Pool::Block larger = pool->take(size);
    if (used != 0) std::memcpy(larger.data(), block.data(), used);
    block = std::move(larger);
}

Rows::Rows(const Spec& spec, Column& column, const std::shared_ptr<Pool>& pool, const Room& room)
    : spec_(&spec),
      column_(&column),
      pool_(&pool),
      n_(room.rows),
      most_(room.bytes / least_size(spec)),
      item_(size_of(spec.kind)) {
    const std::size_t n = n_;
    if (spec.layout == Layout::varying || spec.layout == Layout::sparse) {
        column.offsets.reserve(n + 1);
        column.offsets.push_back(0);
    }
    if (spec.layout == Layout::sparse) {
        column.wide = spec.count < 0 || spec.count > INT32_MAX;
        column.width = spec.count < 0 ? 0 : static_cast<std::uint64_t>(spec.count);
        key_item_ = size_of_key(column);
    }
    if (spec.layout == Layout::text) {
        column.texts.reserve(n);
    } else if (spec.layout == Layout::fixed && item_ != 0) {
        const auto count = static_cast<std::size_t>(spec.count);
        if (count != 0 && n > SIZE_MAX / item_ / count) fail(Fault::range, SIZE_MAX, count);
        column.number_count = n * count;
        column.numbers = (*pool_)->take(column.number_count * item_);
    } else if (item_ != 0) {
        reserve(0);
    }
}

void Rows::put(const Tensor& tensor) {
    if (tensor.kind == Kind::none) {
        put_absent();
    } else if (tensor.kind != spec_->kind) {
        fail(Fault::wrong_kind, static_cast<std::uint64_t>(spec_->kind), static_cast<std::uint64_t>(tensor.kind));
    } else if (spec_->layout == Layout::fixed) {
        put_fixed(tensor);
    } else if (spec_->layout == Layout::varying) {
        put_varying(tensor);
    } else {
        put_sparse(tensor);
    }
    ++row_;
}

void Rows::put_text(const Bytes* text) {
    if (text == nullptr) {
        put_absent();
    } else {
        column_->texts.push_back(*text);
    }
    ++row_;
}

void Rows::put_absent() {
    if (spec_->required) fail(Fault::missing);
    shape_.clear();
    column_->absent.push_back(static_cast<std::int64_t>(row_));
    if (spec_->layout == Layout::text) {
        column_->texts.emplace_back();
    } else if (spec_->layout == Layout::fixed) {
        const auto count = static_cast<std::size_t>(spec_->count);
        if (item_ == 0) {
            column_->texts.resize(column_->texts.size() + count);
        } else {
            std::fill_n(column_->numbers.data() + row_ * count * item_, count * item_, std::byte{0});
        }
    } else {
        column_->offsets.push_back(column_->offsets.back());
        if (spec_->layout == Layout::varying && spec_->shape.size() > 1) put_shape(0);
    }
}

void Rows::put_fixed(const Tensor& tensor) {
    const std::size_t count = count_values(tensor);
    const auto wanted = static_cast<std::size_t>(spec_->count);
    if (!tensor.keys.empty()) fail(Fault::wrong_shape);
    if (!tensor.shape.empty()) check_shape(tensor, count);
    if (count != wanted) fail(Fault::wrong_count, wanted, count);
    if (item_ == 0) {
        add_texts(tensor);
    } else {
        copy_values(tensor, {column_->numbers.data() + row_ * wanted * item_, wanted * item_});
    }
}

void Rows::put_varying(const Tensor& tensor) {
    const std::size_t count = count_values(tensor);
    if (!tensor.keys.empty()) fail(Fault::wrong_shape);
    shape_.clear();
    if (!tensor.shape.empty()) check_shape(tensor, count);
    if (spec_->shape.size() > 1) put_shape(count);
    if (item_ == 0) {
        add_texts(tensor);
    } else if (count != 0) {
        copy_values(tensor, {extend(count), count * item_});
    }
    column_->offsets.push_back(static_cast<std::int64_t>(item_ == 0 ? column_->texts.size() : column_->number_count));
}

void Rows::put_sparse(const Tensor& tensor) {
    const std::size_t count = count_values(tensor);
    if (tensor.keys.empty() && count != 0) fail(Fault::wrong_shape);
    if (!read_shape(tensor, shape_)) fail(tensor.keys.empty() ? Fault::wrong_shape : Fault::tensor);
    const std::uint64_t width = elements(shape_);
    if (!agrees(spec_->count, width)) fail(Fault::wrong_shape);
    if (width > INT64_MAX) fail(Fault::range, INT64_MAX, width);
    column_->width = std::max(column_->width, width);
    if (count != 0) copy_values(tensor, {extend(count), count * item_});
    if (!tensor.keys.empty()) put_keys(tensor, width, count);
    column_->offsets.push_back(static_cast<std::int64_t>(column_->number_count));
}

/// Adds the keys of the last `count` values.
void Rows::put_keys(const Tensor& tensor, std::uint64_t width, std::size_t count) {
    std::byte* const to = column_->keys.data() + (column_->number_count - count) * key_item_;
    if (column_->wide) {
        copy_keys(tensor.keys, width, count, wide_, reinterpret_cast<std::int64_t*>(to));
    } else {
        copy_keys(tensor.keys, width, count, wide_, reinterpret_cast<std::int32_t*>(to));
    }
}

/// A record's shape must match its number of values and, unless either of them is flat, the spec's shape.
void Rows::check_shape(const Tensor& tensor, std::size_t count) {
    if (!read_shape(tensor, shape_)) return;
    if (elements(shape_) != count) fail(count == 0 ? Fault::wrong_shape : Fault::tensor, elements(shape_), count);
    const std::vector<std::int64_t>& wanted = spec_->shape;
    if (wanted.size() < 2 || shape_.size() < 2) return;
    if (!std::ranges::equal(wanted, shape_, agrees)) fail(Fault::wrong_shape);
}

/// Records the lengths of a row's axes: those in the record or, if only the first may vary, those that follow from
/// `count`.
void Rows::put_shape(std::size_t count) {
    const std::vector<std::int64_t>& wanted = spec_->shape;
    if (shape_.size() == wanted.size()) {
        for (const std::uint64_t length : shape_) column_->shapes.push_back(static_cast<std::int64_t>(length));
        return;
    }
    std::size_t inner = 1;
    bool known = true;
    for (std::size_t axis = 1; axis < wanted.size(); ++axis) {
        known = known && wanted[axis] >= 0;
        inner *= known ? static_cast<std::size_t>(wanted[axis]) : 1;
    }
    const bool divides = count == 0 || (known && inner != 0 && count % inner == 0);
    if (!divides) fail(Fault::wrong_shape);
    column_->shapes.push_back(static_cast<std::int64_t>(count == 0 ? 0 : count / inner));
    for (std::size_t axis = 1; axis < wanted.size(); ++axis)
        column_->shapes.push_back(std::max<std::int64_t>(wanted[axis], 0));
}

void Rows::add_texts(const Tensor& tensor) {
    column_->texts.insert(column_->texts.end(), tensor.values.begin(), tensor.values.end());
}

/// Makes room for `count` numbers in all, and for as many more as the rows so far suggest and the payloads can hold.
void Rows::reserve(std::size_t count) {
    const std::size_t each = (count + count / 16) / (row_ + 1) + 1;
    const std::size_t guess = n_ > most_ / each ? most_ : each * n_;
    room_ = std::max(count + count / 16, guess);
    grow(column_->numbers, room_ * item_, column_->number_count * item_, *pool_);
    if (key_item_ != 0) grow(column_->keys, room_ * key_item_, column_->number_count * key_item_, *pool_);
}

std::byte* Rows::extend(std::size_t count) {
    const std::size_t before = column_->number_count;
    if (before + count > room_) reserve(before + count);
    column_->number_count += count;
    return column_->numbers.data() + before * item_;
}

namespace {

template <typename T> void append(std::vector<T>& to, const std::vector<T>& from) {
    to.insert(to.end(), from.begin(), from.end());
}

/// Copies `from` to `to` after its first `used` bytes. The caller has made room.
void copy_behind(Pool::Block& to, std::size_t used, const Pool::Block& from, std::size_t size) {
    if (size != 0) std::memcpy(to.data() + used, from.data(), size);
}

/// Makes room in the first part for the numbers (and keys) of all parts.
void make_room(const Spec& spec, std::vector<std::vector<Column>>& parts, std::size_t k,
               const std::shared_ptr<Pool>& pool) {
    std::size_t count = 0;
    for (const std::vector<Column>& part : parts) count += part[k].number_count;
    Column& first = parts[0][k];
    const std::size_t item = size_of(spec.kind), key_item = size_of_key(first);
    if (first.numbers.capacity() < count * item) grow(first.numbers, count * item, first.number_count * item, pool);
    if (spec.layout != Layout::sparse || first.keys.capacity() >= count * key_item) return;
    grow(first.keys, count * key_item, first.number_count * key_item, pool);
}

/// Appends the rows of `part` to `to`. The first of them is row `row`.
void add_part(const Spec& spec, Column& to, const Column& part, std::size_t row) {
    const std::size_t item = size_of(spec.kind);
    if (spec.layout == Layout::fixed && item != 0) {
        const std::size_t before = row * static_cast<std::size_t>(spec.count);
        copy_behind(to.numbers, before * item, part.numbers, part.number_count * item);
    } else {
        copy_behind(to.numbers, to.number_count * item, part.numbers, part.number_count * item);
        if (spec.layout == Layout::sparse)
            copy_behind(to.keys, to.number_count * size_of_key(to), part.keys, part.number_count * size_of_key(to));
        to.number_count += part.number_count;
    }
    if (!part.offsets.empty()) {
        const std::int64_t before = to.offsets.back();
        std::for_each(part.offsets.begin() + 1, part.offsets.end(),
                      [&](std::int64_t end) { to.offsets.push_back(before + end); });
    }
    append(to.texts, part.texts);
    append(to.shapes, part.shapes);
    for (const std::int64_t absent : part.absent) to.absent.push_back(static_cast<std::int64_t>(row) + absent);
    to.width = std::max(to.width, part.width);
}

} // namespace

std::vector<std::size_t> cut_rows(std::span<const Bytes> payloads, std::size_t most, std::size_t least_bytes) {
    std::vector<std::size_t> cuts{0};
    if (most > 1) {
        std::size_t size = 0;
        for (const Bytes payload : payloads) size += payload.size();
        const std::size_t parts = std::min(most, size / std::max<std::size_t>(least_bytes, 1));
        std::size_t before = 0;
        for (std::size_t i = 0; i + 1 < payloads.size() && cuts.size() < parts; ++i) {
            before += payloads[i].size();
            if (before >= size / parts * cuts.size()) cuts.push_back(i + 1);
        }
    }
    cuts.push_back(payloads.size());
    return cuts;
}

void on_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
    std::vector<std::exception_ptr> failures(count);
    GuardedRead* const guard = GuardedRead::current();
    const auto run = [&](std::size_t k) noexcept {
        const GuardedRead::Helper reading(guard);
        try {
            work(k);
        } catch (...) {
            failures[k] = std::current_exception();
        }
    };
    std::vector<std::thread> others;
    others.reserve(count); // Allocate now: an exception later would leave threads that are never joined.
    for (std::size_t k = 1; k < count; ++k) {
        try {
            others.emplace_back(run, k);
        } catch (const std::exception&) { // No more threads, or no memory for one.
            run(k);
        }
    }
    if (count != 0) run(0);
    for (std::thread& other : others) other.join();
    for (const std::exception_ptr& failure : failures)
        if (failure) std::rethrow_exception(failure);
}

std::vector<Column> join_parts(const std::vector<Spec>& specs, std::vector<std::vector<Column>> parts,
                               std::span<const std::size_t> cuts, const std::shared_ptr<Pool>& pool) {
    for (std::size_t k = 0; parts.size() > 1 && k < specs.size(); ++k) {
        if (specs[k].layout == Layout::varying || specs[k].layout == Layout::sparse)
            make_room(specs[k], parts, k, pool);
        for (std::size_t part = 1; part < parts.size(); ++part)
            add_part(specs[k], parts[0][k], parts[part][k], cuts[part]);
    }
    return std::move(parts[0]);
}

} // namespace headrace::sagemaker
