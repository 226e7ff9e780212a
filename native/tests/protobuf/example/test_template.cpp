#include "core/protobuf/example/template.hpp"

#include <algorithm>

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;
using example::Kind;
using example::List;
using example::Part;
using example::WireTemplate;

namespace {

// A payload with two values: two bytes at 2, three bytes at 5. The entry at 9 was not requested.
constexpr std::string_view first = "ab12c345d?e";
constexpr std::string_view same_form = "ab98c765d!e";

List list(std::string_view payload, Kind kind, std::size_t begin, std::size_t size) {
    List out;
    out.kind = kind;
    out.piece = {bytes_of(payload).subspan(begin, size), bytes_of(payload).data()};
    return out;
}

WireTemplate learn_first() {
    WireTemplate learned;
    learned.learn(bytes_of(first), {list(first, Kind::float32, 5, 3), List{}, list(first, Kind::int64, 2, 2)},
                  {{bytes_of(first).subspan(9, 1), bytes_of(first).data()}});
    return learned;
}

bool is(Part part, std::string_view text) { return std::ranges::equal(part.bytes, bytes_of(text)); }

void the_same_form_matches() {
    std::vector<List> lists(3);
    lists[1].kind = Kind::bytes;
    lists[2].more.resize(2);
    check(learn_first().locate(bytes_of(same_form), lists));
    check(lists[0].kind == Kind::float32 && is(lists[0].piece, "765") &&
          lists[0].piece.origin == bytes_of(same_form).data());
    check(lists[1].kind == Kind::none);
    check(lists[2].kind == Kind::int64 && is(lists[2].piece, "98") && lists[2].more.empty());
}

void another_form_does_not() {
    std::vector<List> lists(3);
    for (const std::string_view other :
         {"ab98c765d!f", "Ab98c765d!e", "ab98C765d!e", "ab98c765D!e", "ab98c765d!", "ab98c765d!ee", ""}) {
        check(!learn_first().locate(bytes_of(other), lists));
        check(lists[0].kind == Kind::none);
    }
    check(!WireTemplate{}.locate(bytes_of(first), lists) && !WireTemplate{}.locate({}, lists));
}

void pieces_are_not_learned() {
    WireTemplate learned = learn_first();
    List pieces = list(first, Kind::int64, 2, 1);
    pieces.more.push_back({bytes_of(first).subspan(3, 1), bytes_of(first).data()});
    learned.learn(bytes_of(first), {pieces}, {});
    std::vector<List> lists(3);
    check(!learned.locate(bytes_of(first), lists));
}

void large_remainders_are_not_compared() {
    const std::string large(10'000, 'x');
    WireTemplate learned;
    learned.learn(bytes_of(large), {list(large, Kind::bytes, 4096, 10'000 - 4096)}, {});
    std::vector<List> lists(1);
    check(learned.locate(bytes_of(large), lists));
    learned.learn(bytes_of(large), {list(large, Kind::bytes, 4096, 10'000 - 4097)}, {});
    check(!learned.locate(bytes_of(large), lists));
}

void a_repeated_size_is_worth_learning() {
    WireTemplate learned;
    check(!learned.is_worth_learning(bytes_of("abc")) && !learned.is_worth_learning(bytes_of("ab")) &&
          learned.is_worth_learning(bytes_of("de")) && !learned.is_worth_learning(bytes_of("abc")));
}

} // namespace

int main() {
    the_same_form_matches();
    another_form_does_not();
    pieces_are_not_learned();
    large_remainders_are_not_compared();
    a_repeated_size_is_worth_learning();
}
