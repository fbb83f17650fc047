// Packed formats: the tile-interleaved (pre-packed) layout of quantised weights, and how a lane reads and dequantises them. Pack (layout.go) lays a
// weight out in units of 16 rows (a tile) × 128 columns, each two halves of 8 rows, each half one contiguous piece: codes in the order in
// which the lanes of a warp load them, then scales. The units of eight tiles (a panel) lie in order of columns and then of tiles.
//
// A format has three readings. bytes gives codes as bytes, as the A operand of integer mma. raw gives them as whole numbers that bf16 holds. With both,
// scales go on the accumulators and nothing is rounded. dequantise gives the weights themselves rounded to bf16, for one mma after the other or to be
// stored.
#pragma once
#include "../../activation.h"

constexpr int COLUMNS = 128, BLOCKS = 4; // of a unit
constexpr int PANEL = 8;                  // tiles

extern SHARED u8 dynamic[];

// unitsOf is how many units a row of k numbers has: an even number, so that gemm_sm90.h may take two at a time.
DEVICE int unitsOf(int k) { return ceilDiv(k, 2 * COLUMNS) * 2; }
// unitAt is where a unit of a tile lies, counted in units, in a weight whose rows have so many.
DEVICE u64 unitAt(u32 tile, u32 unit, u32 units) { return (tile / PANEL * units + unit) * PANEL + tile % PANEL; } // in 32 bits: far cheaper

struct PackedPart { // one weight; several that read the same x are one launch
  const u8* w;       // [ceil(n / 128)][unitsOf(k)][8] units
  const float* bias; // [n] or null
  bf16* y;           // [m, n]
  int n;
  int tiles; // gemv.h: of 16 rows each, of the parts before this one; gemm_sm90.h: a block's, of this one
};

// Where a half of a unit lies, in shared or in device memory, and how to get 16 or 8 bytes of it.
struct Vec8 { u32 x[2]; };
struct InShared {
  u32 at;
  DEVICE Vec16 four(int offset) const {
    Vec16 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x[0]), "=r"(v.x[1]), "=r"(v.x[2]), "=r"(v.x[3]) : "r"(at + offset) : "memory");
    return v;
  }
  DEVICE Vec8 two(int offset) const {
    Vec8 v;
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v.x[0]), "=r"(v.x[1]) : "r"(at + offset) : "memory");
    return v;
  }
  DEVICE u32 word(int offset) const {
    u32 v;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(at + offset) : "memory");
    return v;
  }
  DEVICE u16 one(int offset) const {
    u16 v;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(at + offset) : "memory");
    return v;
  }
};
struct InGlobal {
  const u8* at;
  DEVICE Vec16 four(int offset) const { return loadNoAllocate(at + offset); }
  DEVICE u16 one(int offset) const { return __builtin_nontemporal_load((const u16*)(at + offset)); }
  DEVICE Vec8 two(int offset) const {
    Vec8 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v2.b32 {%0, %1}, [%2];" : "=r"(v.x[0]), "=r"(v.x[1]) : "l"(at + offset));
    return v;
  }
};

// maskOr is (v & mask) | bits in one instruction, which the compiler does not find by itself when both are constants.
DEVICE u32 maskOr(u32 v, u32 mask, u32 bits) {
  u32 d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(v), "r"(mask), "r"(bits));
  return d;
}
DEVICE u32 fmaPair(u32 a, u32 b, u32 c) {
  u32 d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
constexpr u32 ONES = 0x3f803f80, MINUS_ZEROS = 0x80008000;

DEVICE float f16ToFloat(u16 bits) { return (float)__builtin_bit_cast(f16, bits); }
DEVICE float f16ToFloat(u32 pair, int i) { return f16ToFloat((u16)(pair >> (16 * i))); }

// prmt makes four bytes of the eight of a and b; each hexadecimal digit of which names one.
DEVICE u32 prmt(u32 a, u32 b, u32 which) {
  u32 d;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(which));
  return d;
}
constexpr u32 LOW_HALVES = 0x0f0f0f0f; // of bytes

// byteFloat is byte i of v, less 128, as a float: the byte in the last bits of 2²³.
template <int I> DEVICE float byteFloat(u32 v) {
  u32 f;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(f) : "r"(v), "r"(0x4b000000), "n"(0x7440 | I));
  return __builtin_bit_cast(float, f) - 8388736.0f;
}

// A format is what a lane 4g + t holds of half a unit: numbers of row g. It says:
//   BYTES    of half a unit
//   SCALES   where its rows' scales begin, and EACH the bytes of a row's; middles, one for each block, follow its scales. With 2 bytes all
//            columns of a row have one scale (ONE_SCALE)
//   SUBS     scales of a block of 32 columns: 1, or 2, each for the columns of one mma
//   AFFINE   whether a number is scale × code + middle; otherwise it is scale × code
//   RAW_BIAS  by how much raw's numbers are too large; 0, 128 or a little more
//   BYTE_BIAS by how much those of bytes are, which are STEPS of a scale
//   ORDER    which of its eight columns 8i + 2t + e of a block, as 2i + e, the bytes are of: digit n is that of byte n

template <typename Q> constexpr bool ONE_SCALE = Q::EACH == 2;

// Whole numbers of four bits, less 8, with scales and perhaps middles, all halves. 128 + code is the code in the last bits of bf16's 128.
template <bool MIDDLES> struct U4Base {
  static constexpr int BYTES = MIDDLES ? 640 : 576, SCALES = 512, EACH = MIDDLES ? 16 : 8, SUBS = 1, RAW_BIAS = 136, BYTE_BIAS = 8;
  static constexpr bool AFFINE = MIDDLES;
  static constexpr float STEPS = 1;
  static constexpr u32 ORDER = 0x73625140;
  Vec16 codes;
  Vec8 scales, middles;
  template <typename From> DEVICE void loadCodes(From from) { codes = from.four(lane() * 16); }
  template <typename From> DEVICE void load(From from) {
    loadCodes(from);
    if (MIDDLES) {
      Vec16 both = from.four(SCALES + lane() / 4 * EACH);
      scales = Vec8{both.x[0], both.x[1]}, middles = Vec8{both.x[2], both.x[3]};
    } else {
      scales = from.two(SCALES + lane() / 4 * EACH);
    }
  }
  DEVICE void raw(int block, u32 (&pairs)[4]) const {
    UNROLL for (int i = 0; i < 4; i++) pairs[i] = maskOr(codes.x[block] >> (4 * i), 0x000f000f, 0x43004300);
  }
  DEVICE void bytes(int block, u32 (&words)[2]) const { words[0] = codes.x[block] & LOW_HALVES, words[1] = codes.x[block] >> 4 & LOW_HALVES; }
  static DEVICE float number(u16 bits) { return f16ToFloat(bits); }
  DEVICE float scale(int sub) const { return f16ToFloat(scales.x[sub / 2], sub % 2); }
  DEVICE float middle(int block) const { return MIDDLES ? f16ToFloat(middles.x[block / 2], block % 2) : 0; }
};
using U4Affine = U4Base<true>;
using U4 = U4Base<false>;

// The same with one scale, a half, for all columns of a row.
struct U4PerUnit : U4Base<false> {
  static constexpr int BYTES = 528, EACH = 2;
  u16 one;
  template <typename From> DEVICE void load(From from) { loadCodes(from), one = from.one(SCALES + lane() / 4 * EACH); }
  DEVICE float scale(int) const { return f16ToFloat(one); }
};

// Whole numbers of eight bits, stored as code + 128; scales as above.
struct U8 {
  static constexpr int BYTES = 1088, SCALES = 1024, EACH = 8, SUBS = 1, RAW_BIAS = 0, BYTE_BIAS = 128;
  static constexpr bool AFFINE = false;
  static constexpr float STEPS = 1;
  static constexpr u32 ORDER = 0x76543210;
  Vec16 codes[2];
  Vec8 scales;
  template <typename From> DEVICE void loadCodes(From from) {
    UNROLL for (int v = 0; v < 2; v++) codes[v] = from.four(v * 512 + lane() * 16);
  }
  template <typename From> DEVICE void load(From from) {
    loadCodes(from);
    scales = from.two(SCALES + lane() / 4 * EACH);
  }
  DEVICE void raw(int block, u32 (&pairs)[4]) const {
    UNROLL for (int i = 0; i < 2; i++) {
      u32 four = codes[block / 2].x[block % 2 * 2 + i];
      pairs[2 * i] = pack(byteFloat<0>(four), byteFloat<1>(four));
      pairs[2 * i + 1] = pack(byteFloat<2>(four), byteFloat<3>(four));
    }
  }
  DEVICE void bytes(int block, u32 (&words)[2]) const {
    UNROLL for (int i = 0; i < 2; i++) words[i] = codes[block / 2].x[block % 2 * 2 + i];
  }
  static DEVICE float number(u16 bits) { return f16ToFloat(bits); }
  DEVICE float scale(int sub) const { return f16ToFloat(scales.x[sub / 2], sub % 2); }
  DEVICE float middle(int) const { return 0; }
};

// The same with scales of 16 columns.
struct U8By16 : U8 {
  static constexpr int BYTES = 1152, EACH = 16, SUBS = 2;
  Vec16 by16;
  template <typename From> DEVICE void load(From from) {
    loadCodes(from);
    by16 = from.four(SCALES + lane() / 4 * EACH);
  }
  DEVICE float scale(int sub) const { return f16ToFloat(by16.x[sub / 2], sub % 2); }
};

// Whole numbers of six bits: the low four as in U4Affine, then for each lane two words with the high two of two blocks each. Scales are
// for 16 columns.
struct U6 {
  static constexpr int BYTES = 896, SCALES = 768, EACH = 16, SUBS = 2, RAW_BIAS = 160, BYTE_BIAS = 32;
  static constexpr bool AFFINE = false;
  static constexpr float STEPS = 1;
  static constexpr u32 ORDER = 0x73625140;
  Vec16 codes, scales;
  Vec8 high;
  template <typename From> DEVICE void loadCodes(From from) { codes = from.four(lane() * 16), high = from.two(512 + lane() * 8); }
  template <typename From> DEVICE void load(From from) {
    loadCodes(from);
    scales = from.four(SCALES + lane() / 4 * EACH);
  }
  static DEVICE u32 moved(u32 v, int from, int to) { return from < to ? v << (to - from) : v >> (from - to); }
  DEVICE void raw(int block, u32 (&pairs)[4]) const {
    UNROLL for (int i = 0; i < 4; i++) {
      u32 low = maskOr(codes.x[block] >> (4 * i), 0x000f000f, 0x43004300);
      pairs[i] = maskOr(moved(high.x[block / 2], i / 2 * 8 + block % 2 * 4 + i % 2 * 2, 4), 0x00300030, low);
    }
  }
  DEVICE void bytes(int block, u32 (&words)[2]) const {
    UNROLL for (int i = 0; i < 2; i++)
      words[i] = maskOr(moved(high.x[block / 2], block % 2 * 4 + i * 2, 4), 0x30303030, codes.x[block] >> (4 * i) & LOW_HALVES);
  }
  static DEVICE float number(u16 bits) { return f16ToFloat(bits); }
  DEVICE float scale(int sub) const { return f16ToFloat(scales.x[sub / 2], sub % 2); }
  DEVICE float middle(int) const { return 0; }
};

// Floats of four bits (E2M1). Sign, exponent and mantissa bit in their places of a bf16 stand for 2^-126 of the number, also when the exponent
// is 0. As bytes they are 12 more than its double.
struct E2M1Codes {
  static constexpr int RAW_BIAS = 0, BYTE_BIAS = 12;
  static constexpr bool AFFINE = false;
  static constexpr float STEPS = 0.5f;
  static constexpr u32 ORDER = 0x75316420;
  Vec16 codes;
  template <typename From> DEVICE void loadCodes(From from) { codes = from.four(lane() * 16); }
  DEVICE void raw(int block, u32 (&pairs)[4]) const {
    UNROLL for (int i = 0; i < 4; i++) {
      u32 v = codes.x[block] << (12 - 4 * i);
      pairs[i] = fmaPair(maskOr(v, 0x80008000, (v >> 6) & 0x01c001c0), 0x7e807e80, MINUS_ZEROS); // × 2^126
    }
  }
  DEVICE void bytes(int block, u32 (&words)[2]) const {
    u32 v = codes.x[block], other = v ^ 0x88888888; // choose gives 0 where a sign is set, which is that of one or of the other
    UNROLL for (int i = 0; i < 2; i++)
      words[i] = prmt(0x0f0e0d0c, 0x18141210, v >> (16 * i)) | prmt(0x090a0b0c, 0x00040608, other >> (16 * i));
  }
  DEVICE float middle(int) const { return 0; }
};

// MXFP4: under scales that are powers of two, as bf16.
struct E2M1 : E2M1Codes {
  static constexpr int BYTES = 576, SCALES = 512, EACH = 8, SUBS = 1;
  Vec8 scales;
  template <typename From> DEVICE void load(From from) {
    loadCodes(from);
    scales = from.two(SCALES + lane() / 4 * EACH);
  }
  static DEVICE float number(u16 bits) { return __builtin_bit_cast(float, (u32)bits << 16); }
  DEVICE float scale(int sub) const { return sub % 2 ? ::high(scales.x[sub / 2]) : ::low(scales.x[sub / 2]); }
};

// NVFP4: under scales of 16 columns, halves.
struct E2M1By16 : E2M1Codes {
  static constexpr int BYTES = 640, SCALES = 512, EACH = 16, SUBS = 2;
  Vec16 scales;
  template <typename From> DEVICE void load(From from) {
    loadCodes(from);
    scales = from.four(SCALES + lane() / 4 * EACH);
  }
  static DEVICE float number(u16 bits) { return f16ToFloat(bits); }
  DEVICE float scale(int sub) const { return f16ToFloat(scales.x[sub / 2], sub % 2); }
};

// Floats of eight bits (E4M3) with one scale for all columns of a row, a half that is 2^8 of it: codes are 2^-8 of the numbers, so that small
// scales are no subnormal halves. Sign, exponent and mantissa in their places of a bf16 stand for 2^-120 of the number, also when the exponent
// is 0. They are no whole numbers of eight bits: there is no bytes.
struct E4M3 {
  static constexpr int BYTES = 1040, SCALES = 1024, EACH = 2, SUBS = 1, RAW_BIAS = 0;
  static constexpr bool AFFINE = false;
  Vec16 codes[2]; // in U8's order
  u16 one;
  template <typename From> DEVICE void load(From from) {
    UNROLL for (int v = 0; v < 2; v++) codes[v] = from.four(v * 512 + lane() * 16);
    one = from.one(SCALES + lane() / 4 * EACH);
  }
  DEVICE void raw(int block, u32 (&pairs)[4]) const {
    UNROLL for (int i = 0; i < 4; i++) {
      u32 v = prmt(codes[block / 2].x[block % 2 * 2 + i / 2], 0, i % 2 ? 0x4342 : 0x4140); // two codes, each in the low byte of a half
      pairs[i] = fmaPair(maskOr(v << 8, 0x80008000, v << 4 & 0x07f007f0), 0x77807780, MINUS_ZEROS); // × 2^112
    }
  }
  DEVICE float scale(int) const { return f16ToFloat(one); }
  DEVICE float middle(int) const { return 0; }
};

// Four-bit indices into a codebook of 16 numbers, rounded to bf16, in U4's order, with scales that are halves. There is no bytes.
template <typename BOOK> struct Codebook {
  static constexpr int BYTES = 576, SCALES = 512, EACH = 8, SUBS = 1, RAW_BIAS = 0;
  static constexpr bool AFFINE = false;
  Vec16 codes;
  Vec8 scales;
  template <typename From> DEVICE void load(From from) {
    codes = from.four(lane() * 16);
    scales = from.two(SCALES + lane() / 4 * EACH);
  }
  // look gives a byte of the numbers of four codes; which has their low three bits, upper 0xff where the fourth is set.
  static DEVICE u32 look(u32 a, u32 b, u32 c, u32 d, u32 which, u32 upper) {
    u32 low = prmt(a, b, which);
    return low ^ ((low ^ prmt(c, d, which)) & upper);
  }
  DEVICE void raw(int block, u32 (&pairs)[4]) const {
    u32 two[2][2]; // of columns e: numbers of i = 0 and 1, and of 2 and 3
    UNROLL for (int e = 0; e < 2; e++) {
      u32 v = codes.x[block] >> (16 * e), which = v & 0x7777, upper = prmt(0x0000ff00, 0, v >> 3 & 0x1111);
      u32 first = look(BOOK::LOW0, BOOK::LOW1, BOOK::LOW2, BOOK::LOW3, which, upper), second = look(BOOK::HIGH0, BOOK::HIGH1, BOOK::HIGH2, BOOK::HIGH3, which, upper);
      two[e][0] = prmt(first, second, 0x5140), two[e][1] = prmt(first, second, 0x7362);
    }
    UNROLL for (int i = 0; i < 4; i++) pairs[i] = prmt(two[0][i / 2], two[1][i / 2], i % 2 ? 0x7632 : 0x5410);
  }
  DEVICE float scale(int sub) const { return f16ToFloat(scales.x[sub / 2], sub % 2); }
  DEVICE float middle(int) const { return 0; }
};

// The codebooks of bitsandbytes: the low and the high bytes of bf16 numbers, four to a word.
struct NF4Book {
  static constexpr u32 LOW0 = 0xca063280, LOW1 = 0x00ba3d92, LOW2 = 0xad7c25a3, LOW3 = 0x803910e2;
  static constexpr u32 HIGH0 = 0xbebfbfbf, HIGH1 = 0x00bdbebe, HIGH2 = 0x3e3e3e3d, HIGH3 = 0x3f3f3f3e;
};
struct FP4Book {
  static constexpr u32 LOW0 = 0x802bab00, LOW1 = 0x802b00ab, LOW2 = 0x802bab00, LOW3 = 0x802b00ab;
  static constexpr u32 HIGH0 = 0x3f3f3b00, HIGH1 = 0x3e3e3f3e, HIGH2 = 0xbfbfbb00, HIGH3 = 0xbebebfbe;
};
using NF4 = Codebook<NF4Book>;
using FP4 = Codebook<FP4Book>;

template <typename Q> constexpr bool SPARSE = false; // 2:4, see sparse24.h

// dequantise gives the weights of a block, as pairs of bf16. Pairs 0 and 1 are those of the block's first mma.
template <typename Q> DEVICE void dequantise(const Q& q, int block, u32 (&pairs)[4]) {
  q.raw(block, pairs);
  u32 middles = MINUS_ZEROS;
  if (Q::AFFINE) middles = pack(q.middle(block), q.middle(block));
  UNROLL for (int s = 0; s < Q::SUBS; s++) {
    float scale = q.scale(block * Q::SUBS + s);
    u32 scales = pack(scale, scale);
    UNROLL for (int i = 4 / Q::SUBS * s; i < 4 / Q::SUBS * (s + 1); i++) {
      if (Q::RAW_BIAS) pairs[i] = fmaPair(pairs[i], ONES, 0xc300c300 + (Q::RAW_BIAS - 128) * 0x00010001);
      pairs[i] = fmaPair(pairs[i], scales, middles);
    }
  }
}
