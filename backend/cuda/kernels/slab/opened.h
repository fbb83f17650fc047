// Weights as the A operand of a product on Hopper's warpgroups: opened gives those of a block, rounded to bf16, less a factor of COUNT that
// goes on the sums. As pairs of bf16, the first two those of the block's first 16 columns.
#pragma once
#include "unit.h"

template <typename Q> struct Opener {
  static constexpr float COUNT = 1;
  const Q& q;
  DEVICE Opener(const Q& q) : q(q) {}
  DEVICE void operator()(int block, u32 (&pairs)[4]) const { weights(q, block, pairs); }
};

DEVICE u32 mulPair(u32 a, u32 b) {
  u32 d;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
// twice is one of a pair, I, in both places.
template <int I> DEVICE u32 twice(u32 pair) {
  u32 d;
  if (I) asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, h};}" : "=r"(d) : "r"(pair));
  else asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {l, l};}" : "=r"(d) : "r"(pair));
  return d;
}
DEVICE constexpr u32 both(u32 bits) { return bits << 16 | bits; }

// Shift is scales times the powers of two with which one fma makes weights of the bits of codes alone. A code c in the last bits of a
// bf16 whose others are zeros stands for c × 2^-133, four bits higher for c × 2^-129, also where its highest bit is the exponent's
// lowest. So c × 2^-133 × (scale × 2^111) - MIDDLE × scale × 2^-22 is the weight times 2^-22, rounded once; the largest scale, 2^16, overflows nowhere.
template <int MIDDLE> struct Shift {
  static constexpr float COUNT = 1 << 22;
  u32 lowest, higher, less; // of codes in the last bits, and of those four bits higher; what an fma adds
  DEVICE Shift(u32 halves) { // two scales
    u32 scales = pack(halfFloat(halves, 0), halfFloat(halves, 1));
    lowest = mulPair(scales, both(0x7700)), higher = mulPair(scales, both(0x7500));
    less = mulPair(scales, both(MIDDLE == 8 ? 0xb600 : 0xb700)); // -MIDDLE × 2^-22
  }
};

// openFour makes a block's weights of codes of four bits.
DEVICE void openFour(u32 codes, u32 lowest, u32 higher, u32 less, u32 (&pairs)[4]) {
  u32 next = codes >> 8;
  pairs[0] = fmaPair(codes & 0x000f000f, lowest, less), pairs[1] = fmaPair(codes & 0x00f000f0, higher, less);
  pairs[2] = fmaPair(next & 0x000f000f, lowest, less), pairs[3] = fmaPair(next & 0x00f000f0, higher, less);
}

template <> struct Opener<FourPlain> {
  static constexpr float COUNT = Shift<8>::COUNT;
  const FourPlain& q;
  Shift<8> of[2]; // two blocks each
  DEVICE Opener(const FourPlain& q) : q(q), of{q.scales.x[0], q.scales.x[1]} {}
  DEVICE void operator()(int block, u32 (&pairs)[4]) const {
    const Shift<8>& s = of[block / 2];
    if (block % 2) openFour(q.codes.x[block], twice<1>(s.lowest), twice<1>(s.higher), twice<1>(s.less), pairs);
    else openFour(q.codes.x[block], twice<0>(s.lowest), twice<0>(s.higher), twice<0>(s.less), pairs);
  }
};

template <> struct Opener<FourWhole> {
  static constexpr float COUNT = Shift<8>::COUNT;
  const FourWhole& q;
  Shift<8> all;
  DEVICE Opener(const FourWhole& q) : q(q), all(both(q.one)) {}
  DEVICE void operator()(int block, u32 (&pairs)[4]) const { openFour(q.codes.x[block], all.lowest, all.higher, all.less, pairs); }
};

template <> struct Opener<Six> {
  static constexpr float COUNT = Shift<32>::COUNT;
  const Six& q;
  Shift<32> of[4]; // a block each: two scales
  DEVICE Opener(const Six& q) : q(q), of{q.scales.x[0], q.scales.x[1], q.scales.x[2], q.scales.x[3]} {}
  DEVICE void operator()(int block, u32 (&pairs)[4]) const {
    const Shift<32>& s = of[block];
    UNROLL for (int i = 0; i < 4; i++) {
      u32 low = q.codes.x[block] >> (4 * i) & 0x000f000f;
      u32 code = maskOr(Six::moved(q.high.x[block / 2], i / 2 * 8 + block % 2 * 4 + i % 2 * 2, 4), 0x00300030, low);
      pairs[i] = fmaPair(code, i / 2 ? twice<1>(s.lowest) : twice<0>(s.lowest), i / 2 ? twice<1>(s.less) : twice<0>(s.less));
    }
  }
};

// opened is D[64 × N] += A[64 × 16] × B[N × 16]', A from registers as mma's; b is the low word of operand's description, whose high word never changes, so that
// it costs one uniform register.
DEVICE void opened(float (&d)[4], const u32 (&a)[4], u32 b) {
  asm volatile("{\n\t.reg .b64 b;\n\tmov.b64 b, {%8, 0x40000040};\n\twgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, {%4,%5,%6,%7}, b, 1, 1, 1, 0;\n\t}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b));
}
DEVICE void opened(float (&d)[8], const u32 (&a)[4], u32 b) {
  asm volatile("{\n\t.reg .b64 b;\n\tmov.b64 b, {%12, 0x40000040};\n\twgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, b, 1, 1, 1, 0;\n\t}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b));
}
DEVICE void opened(float (&d)[16], const u32 (&a)[4], u32 b) {
  asm volatile("{\n\t.reg .b64 b;\n\tmov.b64 b, {%20, 0x40000040};\n\twgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19}, b, 1, 1, 1, 0;\n\t}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b));
}
DEVICE void opened(float (&d)[32], const u32 (&a)[4], u32 b) {
  asm volatile("{\n\t.reg .b64 b;\n\tmov.b64 b, {%36, 0x40000040};\n\twgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, b, 1, 1, 1, 0;\n\t}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b));
}
DEVICE void opened(float (&d)[64], const u32 (&a)[4], u32 b) {
  asm volatile("{\n\t.reg .b64 b;\n\tmov.b64 b, {%68, 0x40000040};\n\twgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, b, 1, 1, 1, 0;\n\t}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                 "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b));
}
DEVICE void opened(float (&d)[128], const u32 (&a)[4], u32 b) {
  asm volatile("{\n\t.reg .b64 b;\n\tmov.b64 b, {%132, 0x40000040};\n\twgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, {%128,%129,%130,%131}, b, 1, 1, 1, 0;\n\t}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                 "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
                 "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
                 "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
                 "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
                 "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b));
}
