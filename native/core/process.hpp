#pragma once

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace headrace {

/// Which process this is: threads and locks of another one, whose child this is, are of no use here.
[[nodiscard]] inline int process_id() noexcept {
#if defined(__unix__) || defined(__APPLE__)
    return static_cast<int>(getpid());
#else
    return 0;
#endif
}

} // namespace headrace
