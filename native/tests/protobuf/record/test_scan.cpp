#include "core/protobuf/record/scan.hpp"

#include "check.hpp"
#include "protobuf/record/samples.hpp"

using namespace headrace;
using namespace headrace::sagemaker;
using namespace headrace::testing;

namespace {

void test_facts() {
    Scanner scanner;
    const auto dense = from_hex(dense_f32), sparse = from_hex(sparse_f32), empty = from_hex(sparse_empty);
    Spans spans;
    spans.payloads = {bytes_of(dense), bytes_of(sparse), bytes_of(empty)};
    scanner.add(spans);
    const KeyFacts& found = scanner.keys().at(0);
    check(found.place == Place::feature && found.key == "values" && found.records == 3 && found.held[1] == 3);
    check(found.sparse == 1 && found.shape_only == 1 && found.fewest == 2 && found.most == 2 && found.shaped == 2 &&
          found.widest == 4 && found.sound);
    check(scanner.keys().at(1).place == Place::label && scanner.keys().at(1).records == 3);
}

} // namespace

int main() { test_facts(); }
