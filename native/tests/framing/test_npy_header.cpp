#include "core/framing/npy_header.hpp"

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

std::vector<std::byte> file(std::string_view literal, int major = 1) {
    std::string text = "\x93NUMPY";
    text.push_back(static_cast<char>(major));
    text.push_back('\0');
    const auto size = static_cast<std::uint32_t>(literal.size());
    text.append(reinterpret_cast<const char*>(&size), major == 1 ? 2 : 4);
    text.append(literal);
    const Bytes bytes = bytes_of(std::string_view(text));
    return {bytes.begin(), bytes.end()};
}

npy::Header parse(std::string_view literal, int major = 1) {
    return npy::parse(bytes_of(file(literal, major)), 10'000);
}

Fault fault(std::string_view literal, int major = 1) {
    return fault_of([&] { (void)parse(literal, major); }).fault;
}

} // namespace

int main() {
    const npy::Header plain = parse("{'descr': '<f4', 'fortran_order': False, 'shape': (7, 5), }   \n");
    check(plain.descr.text == "<f4" && !plain.fortran_order && plain.shape == std::vector<std::uint64_t>{7, 5});
    check(parse("{'shape': (), 'descr': '|b1', 'fortran_order': True}").shape.empty());
    check(parse("{\"descr\":'<i8','fortran_order':False,'shape':(3,)}", 3).shape.size() == 1);
    check(parse("{'descr': '<i8', 'fortran_order': False, 'shape': (3L, 2L)}").shape[1] == 2); // Python 2
    check(fault("{'descr': '<i8', 'fortran_order': False, 'shape': (3L,)}", 3) == Fault::header);

    const npy::Header fields =
        parse("{'descr': [('id', '<i4'), (('title', 'x'), '<f8', (2, 3))], 'fortran_order': False, 'shape': (2,)}");
    check(fields.descr.kind == npy::Literal::Kind::list && fields.descr.items.size() == 2);
    check(fields.descr.items[1].items[0].items[1].text == "x" && fields.descr.items[1].items[2].items[1].number == 3);

    check(parse("{'descr': [('\xe9', '<i4')], 'fortran_order': False, 'shape': (1,)}").descr.items[0].items[0].text ==
          "\xc3\xa9"); // Latin-1
    check(parse("{'descr': [('\xc3\xa9', '<i4')], 'fortran_order': False, 'shape': (1,)}", 3)
              .descr.items[0]
              .items[0]
              .text == "\xc3\xa9");
    check(
        parse("{'descr': [('\\u65e5', '<i4')], 'fortran_order': False, 'shape': (1,)}").descr.items[0].items[0].text ==
        "\xe6\x97\xa5");

    for (const std::string_view bad : {"",
                                       "{",
                                       "{}",
                                       "[]",
                                       "{'descr': '<f4'}",
                                       "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
                                       "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
                                       "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
                                       "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
                                       "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
                                       "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
                                       "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x",
                                       "{'descr': '<f4, 'fortran_order': False, 'shape': (3,)}",
                                       "{'descr': '\\q', 'fortran_order': False, 'shape': (3,)}",
                                       "{'descr': '\\ud800', 'fortran_order': False, 'shape': (3,)}",
                                       "{'descr': open('x'), 'fortran_order': False, 'shape': (3,)}",
                                       "{'descr': 4, 'fortran_order': False, 'shape': (3,)}",
                                       "{'descr': True, 'fortran_order': False, 'shape': (3,)}",
                                       "{'descr': '<f\r4', 'fortran_order': False, 'shape': (3,)}",
                                       "\n{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}"})
        check(fault(bad) == Fault::header, bad);
    check(fault("{'descr': '<i8', 'fortran_order': False, 'shape': (03,)}") == Fault::header); // as in Python
    for (const std::string_view bad :
         {"\xe9", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe0\x80\x80", "\xff"})
        check(fault("{'descr': [('" + std::string(bad) + "', '<i4')], 'fortran_order': False, 'shape': (1,)}", 3) ==
                  Fault::header,
              bad);
    for (const std::string_view good : {"\xf0\x9f\x98\x80", "\xe2\x82\xac", "\xed\x9f\xbf", "\xc2\x80"})
        check(parse("{'descr': [('" + std::string(good) + "', '<i4')], 'fortran_order': False, 'shape': (1,)}", 3)
                  .descr.items[0]
                  .items[0]
                  .text == good);
    check(fault("{'descr': " + std::string(5000, '[')) == Fault::header); // too deep, without exhausting the stack

    const auto whole = file("{'descr': '<f4', 'fortran_order': False, 'shape': (7, 5), }");
    for (std::size_t size = 0; size < whole.size(); ++size)
        check(fault_of([&] { (void)npy::parse(Bytes(whole).first(size), 10'000); }).fault == Fault::truncated);
    auto magic = whole;
    magic[3] = std::byte{'X'};
    check(fault_of([&] { (void)npy::parse(bytes_of(magic), 10'000); }).fault == Fault::magic);
    check(fault_of([&] { (void)npy::parse(bytes_of(whole), 10); }).fault == Fault::range);
    auto version = whole;
    version[6] = std::byte{4};
    check(fault_of([&] { (void)npy::parse(bytes_of(version), 10'000); }).fault == Fault::header);
}
