#include <nanobind/stl/shared_ptr.h>

#include "bind/support.hpp"

namespace headrace::bind {
namespace {

// Idle memory to keep per process: a few batches of a few megabytes. Loaders set it by the memory of the machine.
std::size_t idle_limit = std::size_t{256} << 20;

// Longer than loaders pause between two tests of threads, which need more blocks: each test would fault their pages in.
constexpr std::chrono::seconds kept_idle{6};

// One pool per process serves the arrays of every loader. A forked child must not touch a mutex that a thread of the
// parent may hold, so it starts with its own pool (see `new_pool`). Never destroyed: threads may still run at process
// exit.
std::shared_ptr<Pool>& pool_slot() {
    static auto* const pool = new std::shared_ptr<Pool>(std::make_shared<Pool>(idle_limit, kept_idle));
    return *pool;
}

} // namespace

const std::shared_ptr<Pool>& batch_pool() { return pool_slot(); }

void register_pool(nb::module_& module) {
    module.def(
        "pool_stats",
        [] {
            const Pool::Stats stats = batch_pool()->stats();
            nb::dict out;
            out["idle_bytes"] = stats.idle_bytes;
            out["used_bytes"] = stats.used_bytes;
            out["taken"] = stats.taken;
            out["recycled"] = stats.recycled;
            return out;
        },
        nb::sig("def pool_stats() -> dict[str, int]"),
        "Statistics of the batch memory: idle bytes, bytes in use, blocks taken and recycled.");
    module.def(
        "pooled",
        [](std::size_t size) { return to_numpy(batch_pool()->take(size), nb::dtype<std::uint8_t>(), {size}); },
        nb::arg("size"), nb::sig("def pooled(size: int) -> numpy.typing.NDArray[numpy.uint8]"),
        "Uninitialised batch memory of `size` bytes. It returns to the pool when its last view is deleted.");
    module.def(
        "pool_keep",
        [](std::size_t bytes) {
            idle_limit = bytes;
            batch_pool()->set_idle_limit(bytes);
        },
        nb::arg("bytes"), "Keep at most so much batch memory that is not in use.");
    module.def("pool_clear", [] { batch_pool()->clear(); }, "Free the batch memory that is not in use.");
    module.def(
        "pool_after_fork",
        [] {
            // Leaked on purpose: blocks that the child inherited may still point to the old pool.
            new std::shared_ptr<Pool>(std::exchange(pool_slot(), std::make_shared<Pool>(idle_limit, kept_idle)));
        },
        "Replace the pool by an empty one, in a forked child.");
}

} // namespace headrace::bind
