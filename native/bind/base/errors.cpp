#include "bind/support.hpp"

namespace headrace::bind {
namespace {

const char* name_of(Fault fault) {
    switch (fault) {
    case Fault::truncated: return "truncated";
    case Fault::length_checksum: return "length_checksum";
    case Fault::payload_checksum: return "payload_checksum";
    case Fault::wire: return "wire";
    case Fault::wrong_kind: return "wrong_kind";
    case Fault::wrong_count: return "wrong_count";
    case Fault::missing: return "missing";
    case Fault::header: return "header";
    case Fault::magic: return "magic";
    case Fault::range: return "range";
    case Fault::header_checksum: return "header_checksum";
    case Fault::structure: return "structure";
    case Fault::part: return "part";
    case Fault::tensor: return "tensor";
    case Fault::changed: return "changed";
    case Fault::wrong_shape: return "wrong_shape";
    case Fault::flat: return "flat";
    case Fault::steps: return "steps";
    }
    return "unknown";
}

PyObject* error_type = nullptr; // Owned by the module.

} // namespace

nb::object to_python(const FormatError& error) {
    nb::object value = nb::borrow(error_type)(name_of(error.fault));
    value.attr("fault") = name_of(error.fault);
    value.attr("offset") = error.offset;
    value.attr("expected") = error.expected;
    value.attr("found") = error.found;
    value.attr("record") = error.record;
    value.attr("feature") = error.feature;
    return value;
}

void register_errors(nb::module_& module) {
    error_type = PyErr_NewExceptionWithDoc("headrace._native.FormatError",
                                           "A fault in some bytes. Attributes: fault (str), offset, expected, found, "
                                           "record, feature (int; -1 where it does not apply).",
                                           PyExc_ValueError, nullptr);
    if (error_type == nullptr) throw nb::python_error();
    module.attr("FormatError") = nb::borrow(error_type);
    nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (const FormatError& error) {
            PyErr_SetObject(error_type, to_python(error).ptr());
        }
    });
}

} // namespace headrace::bind
