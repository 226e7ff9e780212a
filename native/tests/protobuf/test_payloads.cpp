#include "core/protobuf/payloads.hpp"

#include <memory>

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

void payloads_have_room_for_their_frames() {
    proto::Payloads payloads;
    payloads.place(5, 8, 2, 4);
    payloads.place(0, 8, 2, 4);
    payloads.place(4, 8, 2, 4);
    check(payloads.starts == std::vector<std::int64_t>{8, 8 + 8 + 2 + 8, 8 + 8 + 2 + 8 + 2 + 8});
    check(payloads.sizes == std::vector<std::int64_t>{5, 0, 4});
    check(payloads.size == 3 * (8 + 2) + 8 + 4);
}

void faults_name_their_record() {
    const auto pool = std::make_shared<Pool>(std::size_t{1} << 20);
    proto::Payloads payloads;
    for (int i = 0; i < 3; ++i) payloads.place(1, 0, 0, 1);
    payloads.block = pool->take(payloads.size);
    std::int64_t record = -1;
    try {
        payloads.write_each([](std::size_t i, std::byte* to) {
            *to = static_cast<std::byte>(i);
            if (i == 1) throw FormatError(Fault::changed, 0);
        });
    } catch (const FormatError& error) {
        record = error.record;
    }
    check(record == 1 && payloads.block.data()[0] == std::byte{0} && payloads.block.data()[1] == std::byte{1});
}

} // namespace

int main() {
    payloads_have_room_for_their_frames();
    faults_name_their_record();
}
