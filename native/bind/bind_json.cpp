#include "bind/support.hpp"
#include "core/framing/json_depth.hpp"

namespace headrace::bind {

void register_json(nb::module_& module) {
    module.def("json_too_deep", guarded([](nb::object text, std::uint64_t most) {
                   const Buffer buffer(text);
                   return json_too_deep(buffer.bytes(), most);
               }),
               nb::arg("text"), nb::arg("most"),
               nb::sig("def json_too_deep(text: collections.abc.Buffer, most: int) -> int"),
               "The first byte of JSON text at which lists and objects are nested more than `most` levels deep; -1 "
               "where none is.");
}

} // namespace headrace::bind
