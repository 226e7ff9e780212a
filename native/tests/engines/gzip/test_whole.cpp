#include "core/engines/gzip/whole.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;
using deflate::WholeInflater;

namespace {

using Buffer = std::vector<std::byte>;

// Members of zlib of what `numbers` makes: at level 9, and in two blocks with an empty one between them.
constexpr const char* one_block =
    "1f8b0800000000000203ed93396854511486cf729777dfbbef0d79336f326fb6448932d96332991819d78828185c40d4a8c1b82551a3c1"
    "35889d858d882082a0a58d8d166a2b162a0882588a58888d16162216765eed0396161e2ea7fdeff7fd1c00440458d19eb35ad0f3791482"
    "e9e93965b4e4b69e8e22127dc8955b8148f7f59052707d215f6001972fa425a9f075ad1e84cc57fc4e6d19ee561b1952583e5411a1c09f"
    "13659591b841d5739ae0f3c1e59144f83137901881b37d392308d6b6b7184978716c796215e78b496414b72e29e742c04b134de53eb171"
    "d3b0d00ae60f7b9910898786b40ff47d78240889b74d2725a5311cb705a9a9f74889028287fddcaa916f77c9a221f8b4bb6a50d3ad9158"
    "80e6fb9bab56127458e198c1b191835f574b3346f247324609fa12c6195fc39e2d7592823b47fb514ad8bf578416e95bef8032805f071b"
    "be25de3e9377e994ec8c5205d43cd9269c8217ab4cd1237e326aab01a39dad4502f8d978c567e0f753dd598ff14067ecb9fcf54b635f32"
    "5eddda5d0835d4bb2a59ab616c65ad08848f176c1468bc76c24416f0654b5bc9299f3e16e550f0f1d3f9a233ffa6bb6123863b85812023"
    "e05543e425d0a4ee8f48d12ebf1e4be007ab638e249dea301029bad14c7d179b7ae4d041fcee1971c76035f615cb6c1c3a05a565d52402"
    "bc39237da3e0cc24073ee023af9492e07d53360bcc47e79254287cdb3312bad87b95210b02deadf10a1af87c76b845683a9b36f3fa7fe7"
    "ff5ae7b8d8fb73fb8b2ef8cbf90551fb4ab549040000";
constexpr const char* several_blocks =
    "1f8b08000000000002030c90396b14511cc0ffc73bf6cdbc794326b3b33bb3579425ec6693ec6a261b232b1e1151302882a841c50b633c"
    "538806b1b3b011b11104fd0236da682b162a08821f402cc4460b0b110b3be713fc0e004404d832115b2de8dd3a0ac1f4e6a6325a726bba"
    "9d21d1d7b85e01223d3b4d4ac1c38da4ca02eede4a6b52e1a74eee07ccf7bcaeb60ccf9ac39014d6cf354420f0df4a5d8512f7a83cd604"
    "3fce4c3a89f0f7daa06c04aecdc64610ec9c183392f0f6d264d92a4eb2b2338a2b9bea7100786765a40a89bdfbe68556b07ebe1406483c"
    "37a73da03ff30b7e407c68b55c531a83655b959a662ed4c82778d9e78a467e32253343f0fd58d3a0a6c70b9100cdcff737ad24685b5134"
    "43d14645fcae4e1a1ac9dfc81825e86710859e86e307729282bb8b7d94124e9e108145fa3d335006f0d7d6a167890f5f4a0a3a958fb854"
    "018daeb644b1e0fd769395885f2fdaa6cf68d73a4e00bf5d6e780cfce56c6fbcc478aa1b950afeeecd912719ef1fec55030df95463dc6a"
    "58dad6c980f0d58675bec607578cb3801fc65ab562f9ea4517a3e0cb3792ac38ffb937b48ee16975e087023e0e4522814eebbe234547bd"
    "3c92c02f7644ec245d6f1b708a1e8d52afc0a625fa0f0000ffff8d90bb6b14511c857f8ffb983b73e72e3bbbb3d9d9712789c4b0c91a77"
    "cdbe8cac2f22a290e003c47730f848a2464511c57fc0c6421041b0b5b1d142ed6d14acc452acc4460b0b117be71f0878389cf6e33b0000"
    "420826c4a3b359e42b96a5283492d32d59ec001faf4adf28b8b5c4810ff8da4b13127c66d99680f9d27a9c08859fb70ec28280e7f58e05"
    "015f767b550d7ca7d42b0a4db793614577cb9ae0c7f9492711feaeb76323706d5bd908823d63452309efce4fc65671a5163ba378647c53"
    "3904bc7f7aa8b4e4fd077a422bb879c12b8448dce9681fe84f6f1084c48757e254690c176d556a9ab9985240f0aac5231af9e9b4ac1982"
    "ef2732839a9e0c22019a5f1cccac2498b002736f24cab5616f2329e4c2dfc81825e86718157c0d270f75490a9e9a6ba19470f694082dd2"
    "ef99b63280bf66fbbe253eb25ac9e9141f7389021a5e1b1596e1fd4e53f388dfced92c60b46b0d2780df2dd67d06febadc2c798ce7a622"
    "2fe7efdb1cf992f1c142b31a6ae84ed74b56c3fc8e460d08dfdcb32ed0f8f0aa7116f043713465012b975d19055fb951a949859f9a7deb"
    "189e55db417efec7bea848a025dd72a4e8b8df8d24f0cb5d113b49d7270c38458f86899f63138f72f38dba7dac6cf58603ff997f51fb4a"
    "b549040000";

// Bytes that are rare and frequent, and repeats at several distances.
std::string numbers() {
    std::string text;
    for (unsigned i = 0; i < 600; ++i) text += static_cast<char>((i * i % 251) >> (i % 7));
    text += text.substr(100, 400);
    const std::string three = text.substr(0, 3), five = text.substr(7, 5);
    for (int i = 0; i < 9; ++i) text += three;
    for (int i = 0; i < 6; ++i) text += five;
    return text + std::string(40, '\0');
}

std::string letters() {
    std::string text;
    for (int i = 0; i < 50; ++i) text += "abcdefgh";
    return text + "xyz";
}

struct Member {
    Buffer bytes;
    std::string text;
};

const std::vector<Member> members = {
    {from_hex(one_block), numbers()},
    {from_hex(several_blocks), numbers()},
    {from_hex("1f8b080000000000020303000000000000000000"), ""},
    {from_hex("1f8b080000000000020363601805830900000c0d224690010000"), std::string(400, '\0')},
    {from_hex("1f8b08000000000002034b4c4a4e494d4bcf481ca507055d515905009cc2b2c293010000"), letters()}, // fixed codes
    {from_hex("1f8b0800000000000403010800f7ff01000000020000007c17810308000000"), {"\1\0\0\0\2\0\0\0", 8}}, // stored
};

// What a member holds, if it is taken.
std::optional<std::string> inflate(const Buffer& member, std::size_t size) {
    const Buffer exact(member.begin(), member.end()); // no byte behind it may be read
    Buffer out(size);
    if (!WholeInflater().inflate(exact, out)) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(out.data()), out.size());
}

void test_members() {
    WholeInflater again;
    for (const Member& member : members) {
        check(inflate(member.bytes, member.text.size()) == member.text);
        Buffer out(member.text.size());
        check(again.inflate(member.bytes, out) && std::ranges::equal(out, bytes_of(member.text)));
    }
}

void test_sizes() {
    for (const Member& member : members) {
        for (const std::size_t size : {member.text.size() + 1, member.text.size() + 1000, member.text.size() / 2})
            check(size == member.text.size() || !inflate(member.bytes, size));
        for (std::size_t size = 0; size < member.bytes.size(); ++size)
            check(!inflate(Buffer(member.bytes.begin(), member.bytes.begin() + static_cast<std::ptrdiff_t>(size)),
                           member.text.size()));
        Buffer more = member.bytes;
        more.push_back(std::byte{});
        check(!inflate(more, member.text.size()));
        more.pop_back();
        more.insert(more.end(), member.bytes.begin(), member.bytes.end());
        check(!inflate(more, member.text.size()) &&
              !inflate(more, 2 * member.text.size() + (member.text.empty() ? 1 : 0)));
    }
}

// Whatever changes, nothing but what was there is found. The time, the level and the system in the header say nothing.
void test_changes() {
    for (const Member& member : members)
        for (std::size_t at = 0; at < member.bytes.size(); ++at)
            for (unsigned bit = 0; bit < 8; ++bit) {
                Buffer changed = member.bytes;
                changed[at] ^= static_cast<std::byte>(1 << bit);
                const auto found = inflate(changed, member.text.size());
                check(at >= 4 && at < 10 ? found == member.text : !found || (at >= 10 && found == member.text));
            }
}

void test_others() {
    check(!inflate({}, 0));
    check(!inflate(from_hex("78da636460606002620000180004"), 8));                   // zlib
    check(!inflate(from_hex("1f8b080800000000020361000300000000000000000000"), 0)); // with a name
    check(!inflate(from_hex("1f8b080000000000020307000000000000000000"), 0));       // no such kind of block
    check(!inflate(from_hex("1f8b080000000000020302000000000000000000"), 0));       // no last block
}

} // namespace

int main() {
    test_members();
    test_sizes();
    test_changes();
    test_others();
}
