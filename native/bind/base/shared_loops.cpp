#include "bind/support.hpp"
#include "core/base/shared_loop.hpp"

namespace headrace::bind {
namespace {

/// After this long a thread looks whether what it waits for is there.
constexpr std::chrono::milliseconds at_once{2};

} // namespace

void register_shared_loops(nb::module_& module) {
    module.def(
        "join_loop",
        [] {
            if (!SharedLoop::is_any_shared()) return false; // Without giving up the interpreter.
            const nb::gil_scoped_release release;
            return SharedLoop::join(at_once);
        },
        nb::sig("def join_loop() -> bool"),
        "Work for about 2 ms on the images of a batch that another thread decodes. False, at once, if there is no such "
        "batch with images left.");
}

} // namespace headrace::bind
