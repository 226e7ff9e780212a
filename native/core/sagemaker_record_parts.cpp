#include "core/mapped_files.hpp"
#include "core/sagemaker_record_parts.hpp"

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>

#include "core/sagemaker_record_rows.hpp"

namespace headrace::sagemaker {
namespace {

template <typename T> void append(std::vector<T>& to, const std::vector<T>& from) { to.insert(to.end(), from.begin(), from.end()); }

/// `from` behind the first `used` bytes of `to`, which has room.
void copy_behind(Pool::Block& to, std::size_t used, const Pool::Block& from, std::size_t size) {
    if (size != 0) std::memcpy(to.data() + used, from.data(), size);
}

/// Room in the first part for the numbers (and keys) of all.
void make_room(const Spec& spec, std::vector<std::vector<Column>>& parts, std::size_t k, const std::shared_ptr<Pool>& pool) {
    std::size_t count = 0;
    for (const std::vector<Column>& part : parts) count += part[k].number_count;
    Column& first = parts[0][k];
    const std::size_t item = size_of(spec.kind), key_item = size_of_key(first);
    if (first.numbers.capacity() < count * item) grow(first.numbers, count * item, first.number_count * item, pool);
    if (spec.layout != Layout::sparse || first.keys.capacity() >= count * key_item) return;
    grow(first.keys, count * key_item, first.number_count * key_item, pool);
}

/// The rows from `row` on, behind those in `to`.
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
        std::for_each(part.offsets.begin() + 1, part.offsets.end(), [&](std::int64_t end) { to.offsets.push_back(before + end); });
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
    others.reserve(count); // What is thrown below would leave threads that nobody waits for.
    for (std::size_t k = 1; k < count; ++k) {
        try {
            others.emplace_back(run, k);
        } catch (const std::exception&) { // No more threads are to be had, or no memory for one.
            run(k);
        }
    }
    if (count != 0) run(0);
    for (std::thread& other : others) other.join();
    for (const std::exception_ptr& failure : failures)
        if (failure) std::rethrow_exception(failure);
}

std::vector<Column> join_parts(const std::vector<Spec>& specs, std::vector<std::vector<Column>> parts, std::span<const std::size_t> cuts,
                               const std::shared_ptr<Pool>& pool) {
    for (std::size_t k = 0; parts.size() > 1 && k < specs.size(); ++k) {
        if (specs[k].layout == Layout::varying || specs[k].layout == Layout::sparse) make_room(specs[k], parts, k, pool);
        for (std::size_t part = 1; part < parts.size(); ++part) add_part(specs[k], parts[0][k], parts[part][k], cuts[part]);
    }
    return std::move(parts[0]);
}

} // namespace headrace::sagemaker
