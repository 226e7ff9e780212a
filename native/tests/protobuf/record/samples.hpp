#pragma once

namespace headrace::testing {

// Payloads that the SageMaker SDK's writers made, without their frames.
inline constexpr auto dense_f32 =
    "0a160a0676616c756573120c120a0a080000803f00000040 12120a0676616c756573120812060a0400004040";
inline constexpr auto dense_f64 = "0a1e0a0676616c756573 1214 1a12 0a10 000000000000f03f0000000000000040";
inline constexpr auto dense_i32 =
    "0a1b0a0676616c756573 1211 3a0f 0a0d 01ffffffffffffffffff01ac02 120f0a0676616c756573 1205 3a03 0a01 05";
inline constexpr auto sparse_f32 =
    "0a1d0a0676616c756573 1213 1211 0a080000e04000000041 12020103 1a0104 12120a0676616c756573120812060a040000803f";
inline constexpr auto sparse_empty = "0a0f0a0676616c756573 12051203 1a0104 12120a0676616c756573120812060a040000803f";

} // namespace headrace::testing
