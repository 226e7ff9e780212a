#pragma once

// Small files of other implementations, as hexadecimal digits, shared by several tests.

namespace headrace::testing {

/// Five records as written by array_record 0.8.6 with "group_size:10,transpose:true,uncompressed": fields of all wire
/// types, a submessage, a group, a two-byte field number, bytes that are not a message, and an empty record. 66 bytes
/// in total.
inline constexpr const char* transposed_chunk = "004906091004080410010101010d040804100112212e0108121d080816020878023308"
                                                "34c03e03171a2223151623181d191b1e1c231f202100000109"
                                                "0000000b05070306040303000102110779097f7f7f7f7f7f7f7f7f012c020501020304"
                                                "313233343536373803616263ffff206e6f742061206d657373"
                                                "616765100805";

/// 400 bytes compressed by libzstd 1.5.7: literals in four streams, and sequences.
inline constexpr const char* zstd_frame_of_400 = "28b52ffd6090003d080006d9401c504bdb06e0b233c338360c46b3ff6e22a32691dd9"
                                                 "b0e33333333537b380037003a00a89a0a442113e87307f486a2"
                                                 "84345c8563272a4a3c73d430dd9bebd8330a03ce39331aace8f2f37fe28d3f84da89c"
                                                 "00fbac065a38279b42c7963436377790e0cdb02e5c3c70271c6"
                                                 "1d0677b9c5724d075773ec98add632b1213a2fcf4dcd57fcc2b6595729196b776ed1b"
                                                 "b4cdbc3017a6314a1dc89c4c187fb04bb38ff24710717374386"
                                                 "1b311b2bf40450e4fe1eda53c8b0ad860cacf1bbb5851dcce70b698e0b58c60e319c3"
                                                 "9392e8acffc315852fd4554373b2f16ff30976a2af0cd313453"
                                                 "ac2425e783213fa84f292013704a3332bdd8eafbbb7a87acbb434429a870ff0200";

/// 500 bytes compressed by zlib 1.2.13 with Huffman codes only.
inline constexpr const char* gzip_member_of_500 = "1f8b080000000000040305c1090244200000c0b7d5aa2821d1a54407f9ff07760640"
                                                  "4485abd482edd3246b8e5a49b97e783285ba9fee3c0751cd94e0"
                                                  "9e2dfa8273240e07de826408b406f1b89d60be864093c4d5ef0b1fb950e1e9f7c2af"
                                                  "314b94ac60042132aeae90bdce79697604e9507295cae7df7480"
                                                  "f5593fcbdaa905678c0b73017ec0ed5328aee4bdbd35d6dfdfb0ddc44083a340c56b"
                                                  "2984d4e121f2ee1df2ac1ade3d299e31bd68762f3ffb3056cd40"
                                                  "f2566b1b32e4f69d2e760b784afa7b6ba9ad63dbd5c932650183202d9d21c4fcf56b"
                                                  "ecb647bcaa2f76193a0020a2c2556ac1f669923547ada45c3f3c"
                                                  "9942dd4f779e83a8664a70cf167dc1391287036f4132045a8378dc4e305f43a049e2"
                                                  "eaf7858f5ca8f0f47be1d798254a56308210195757c85ee7bc34"
                                                  "3b827428b94ae5f36f3ac0faac9f65edd48233c685b9003fe0f6291457f2dede1aeb"
                                                  "ef6fd86e62a0c151a0e2b51442eaf01079f70e79560def9e14cf"
                                                  "985e34bbf70fd7cbc9a8f4010000";

} // namespace headrace::testing
