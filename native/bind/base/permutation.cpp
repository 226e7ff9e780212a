#include <algorithm>
#include <utility>
#include <vector>

#include "bind/support.hpp"
#include "core/base/best_fit.hpp"
#include "core/base/permutation.hpp"
#include "core/base/spans.hpp"

namespace headrace::bind {
namespace {

constexpr std::uint64_t most = std::uint64_t{1} << 40;
constexpr std::int64_t most_room = std::int64_t{1} << 24;

void check(std::uint64_t n) {
    if (n < 1 || n > most) throw nb::value_error("a permutation is of 1 to 2**40 numbers");
}

nb::object permute(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch, std::uint64_t start, std::uint64_t stop) {
    check(n);
    if (start > stop || stop > n) throw nb::value_error("positions are in [0, n]");
    const std::size_t count = stop - start;
    Pool::Block block = batch_pool()->take(count * sizeof(std::int64_t));
    {
        const ReleaseForMany release(count);
        Permutation(n, seed, epoch).fill(start, {reinterpret_cast<std::int64_t*>(block.data()), count});
    }
    return to_numpy(std::move(block), nb::dtype<std::int64_t>(), {count});
}

nb::object permute_at(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch, Indices positions) {
    check(n);
    const std::span<const std::int64_t> wanted(positions.data(), positions.shape(0));
    const std::size_t count = wanted.size();
    Pool::Block block = batch_pool()->take(count * sizeof(std::int64_t));
    {
        const ReleaseForMany release(count);
        const auto is_inside = [n](std::int64_t position) { return position >= 0 && std::cmp_less(position, n); };
        if (!std::ranges::all_of(wanted, is_inside)) throw nb::value_error("positions are in [0, n)");
        Permutation(n, seed, epoch).at(wanted, {reinterpret_cast<std::int64_t*>(block.data()), count});
    }
    return to_numpy(std::move(block), nb::dtype<std::int64_t>(), {count});
}

bool run_of(Indices numbers) {
    const ReleaseForMany release(numbers.shape(0));
    return is_run({numbers.data(), numbers.shape(0)});
}

// NumPy takes some microseconds for each of the two, whatever the size.
nb::tuple bounds(Indices numbers) {
    const std::span<const std::int64_t> all(numbers.data(), numbers.shape(0));
    if (all.empty()) throw nb::value_error("no numbers have no bounds");
    std::int64_t least = all.front(), largest = all.front();
    {
        const ReleaseForMany release(all.size());
        if (is_run(all)) {
            largest = all.back();
        } else {
            for (const std::int64_t number : all) {
                least = std::min(least, number);
                largest = std::max(largest, number);
            }
        }
    }
    return nb::make_tuple(least, largest);
}

nb::object parts_of(Indices firsts, Indices positions) {
    const std::size_t count = positions.shape(0);
    Pool::Block block = batch_pool()->take(count * sizeof(std::int32_t));
    {
        const ReleaseForMany release(count);
        find_parts({firsts.data(), firsts.shape(0)}, {positions.data(), count},
                   reinterpret_cast<std::int32_t*>(block.data()));
    }
    return to_numpy(std::move(block), nb::dtype<std::int32_t>(), {count});
}

nb::object pack_best_fit(Indices lengths, std::int64_t room) {
    const std::span<const std::int64_t> all(lengths.data(), lengths.shape(0));
    if (room < 1 || room > most_room) throw nb::value_error("the room is from 1 to 2**24");
    if (all.size() >= UINT32_MAX) throw nb::value_error("there are 2**32 - 2 lengths at most");
    Pool::Block block = batch_pool()->take(all.size() * sizeof(std::int64_t));
    {
        const nb::gil_scoped_release release;
        // Copied, because a caller's array may change meanwhile.
        const std::vector<std::int64_t> kept(all.begin(), all.end());
        const auto fits = [room](std::int64_t length) { return length >= 0 && length <= room; };
        if (!std::ranges::all_of(kept, fits)) throw nb::value_error("lengths are from 0 to the room");
        best_fit(kept, static_cast<std::size_t>(room), {reinterpret_cast<std::int64_t*>(block.data()), kept.size()});
    }
    return to_numpy(std::move(block), nb::dtype<std::int64_t>(), {all.size()});
}

} // namespace

void register_permutation(nb::module_& module) {
    module.def(
        "permute", &permute, nb::arg("n"), nb::arg("seed"), nb::arg("epoch"), nb::arg("start"), nb::arg("stop"),
        nb::sig(
            "def permute(n: int, seed: int, epoch: int, start: int, stop: int) -> numpy.typing.NDArray[numpy.int64]"),
        "Indices at positions [start, stop) of the order of n numbers for a seed and an epoch (both 64 bits).");
    module.def("permute_at", &permute_at, nb::arg("n"), nb::arg("seed"), nb::arg("epoch"), nb::arg("positions"),
               nb::sig("def permute_at(n: int, seed: int, epoch: int, positions: numpy.typing.NDArray[numpy.int64]) -> "
                       "numpy.typing.NDArray[numpy.int64]"),
               "Indices at the given positions of that order.");
    module.def("bounds", &bounds, nb::arg("numbers"),
               nb::sig("def bounds(numbers: numpy.typing.NDArray[numpy.int64]) -> tuple[int, int]"),
               "The smallest and the largest number.");
    module.def("is_run", &run_of, nb::arg("numbers"),
               nb::sig("def is_run(numbers: numpy.typing.NDArray[numpy.int64]) -> bool"),
               "Whether each number is the one before it plus one.");
    module.def("parts_of", &parts_of, nb::arg("firsts"), nb::arg("positions"),
               nb::sig("def parts_of(firsts: numpy.typing.NDArray[numpy.int64], positions: "
                       "numpy.typing.NDArray[numpy.int64]) -> numpy.typing.NDArray[numpy.int32]"),
               "The part of each position, where part k begins at firsts[k]: as numpy.searchsorted(firsts, positions, "
               "side=\"right\") - 1.");
    module.def("best_fit", &pack_best_fit, nb::arg("lengths"), nb::arg("room"),
               nb::sig("def best_fit(lengths: numpy.typing.NDArray[numpy.int64], room: int) -> "
                       "numpy.typing.NDArray[numpy.int64]"),
               "The bin of each item, packed into bins of equal room by best fit decreasing.");
}

} // namespace headrace::bind
