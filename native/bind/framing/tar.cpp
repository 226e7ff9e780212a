#include <cstring>

#include "bind/support.hpp"
#include "core/framing/tar.hpp"

namespace headrace::bind {
namespace {

nb::tuple scan(nb::object data, std::uint64_t begin, std::size_t most) {
    const Buffer buffer(data);
    tar::Members found;
    {
        const nb::gil_scoped_release release;
        found = tar::scan(buffer.bytes(), begin, most);
    }
    nb::list names;
    Pool::Block places = batch_pool()->take(found.files.size() * 2 * sizeof(std::uint64_t));
    std::byte* to = places.data();
    std::string name;
    for (const tar::Member& file : found.files) {
        name.assign(file.prefix);
        if (!name.empty()) name.push_back('/');
        name.append(file.name);
        names.append(nb::str(name.data(), name.size()));
        for (const std::uint64_t number : {file.begin, file.size}) {
            std::memcpy(to, &number, sizeof number);
            to += sizeof number;
        }
    }
    return nb::make_tuple(names, to_numpy(std::move(places), nb::dtype<std::int64_t>(), {found.files.size(), 2}),
                          found.end);
}

} // namespace

void register_tar(nb::module_& module) {
    module.def(
        "scan_tar", guarded(&scan), nb::arg("data"), nb::arg("begin"), nb::arg("most"),
        nb::sig("def scan_tar(data: collections.abc.Buffer, begin: int, most: int) -> tuple[list[str], "
                "numpy.typing.NDArray[numpy.int64], int]"),
        "The names of the next regular files of a tar archive, their first bytes and sizes (files, 2), and where "
        "the header after them begins. It ends at the first header that is not plain: see tar.hpp.");
}

} // namespace headrace::bind
