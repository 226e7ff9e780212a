#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "core/protobuf/example/decode.hpp"

namespace headrace::testing {

/// {"i": [1, -1, 300]} with packed values.
inline constexpr std::string_view packed = "0a180a160a016912111a0f0a0d01ffffffffffffffffff01ac02";

inline example::Spec spec(std::string name, example::Kind kind, std::int64_t count, bool list = false) {
    example::Spec out;
    out.name = std::move(name);
    out.kind = kind;
    out.count = count;
    out.list = list;
    return out;
}

} // namespace headrace::testing
