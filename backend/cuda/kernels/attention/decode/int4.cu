// Flash-decoding over a KV cache in four bits: as decode.cu's, split-KV, with a block for one sequence, up to 8 query heads that share a key head and one of the parts of
// the keys. Four warps take every fourth group of 32 tokens. A fifth takes, in the last part, the tokens of the query's own group, which are in the residual cache in
// 16 bits. All five combine their partial results.
//
// Codes become halves by masks alone, as subnormal numbers (kv_int4.h). Scales of keys' channels go into the query, S = (q × scale)·code + q·minimum, once for a
// group, and those of values' runs into P; what minima add is multiplied once for a group of keys, and is a sum of P × minimum for a run of values.
#define DECODE_WARPS 5
#include "../../kv_int4.h"
#include "online_softmax.h"

struct Int4DecodeParams {
  DecodeParams decode;
  u8* newest;             // the residual cache
  const int* newestPages; // [S × seqPages]
};
constexpr int GROUP_WARPS = WARPS - 1, EVEN_KEYS = 512; // EVEN_KEYS: as decode.cu has it

// Int4Split is how a sequence's whole groups are split over blocks.
struct Int4Split {
  int first, group0, groups, each, active; // the first key that the query attends to; the first group, how many, of a split; splits that there are

  DEVICE Int4Split(const DecodeParams& p, int length) {
    first = p.window > 0 ? maxi(0, length - p.window) : 0;
    if (p.window < 0) first = (length - 1) - (length - 1) % -p.window;
    group0 = first >> GROUP_SHIFT, groups = maxi(0, ((length - 1) >> GROUP_SHIFT) - group0);
    each = maxi(ceilDiv(groups, maxi(p.fill, mini(groups * GROUP / EVEN_KEYS, p.splits))), (groups <= 3 * GROUP_WARPS ? 3 : 2) * GROUP_WARPS);
    active = maxi(1, ceilDiv(groups, each));
  }
};

// Int4Warp is what a warp holds of a group's keys and values. KC × 32 and RUNS × 32 are the head sizes there is room for. Lane 4g + t has of keys g, g + 8, g + 16 and
// g + 24 the channels that start at its t, and of values the channels 8m + g of the tokens 2t, 2t + 1, 2t + 8 and so on.
template <int KC, int RUNS> struct Int4Warp {
  static constexpr int TILES = RUNS * 2;
  Vec16 k[KC], scale[KC], minimum[KC], v[RUNS], range[RUNS];

  DEVICE void loadKeys(const Int4Head& x) {
    int g = lane() / 4, t = lane() % 4;
    UNROLL for (int c = 0; c < KC; c++) {
      bool in = c * 32 < x.kSize;
      load<false>(k[c], (const u8*)(x.keys() + Int4Head::keyWord(c * 4 + t, g, 0)), in);
      load<false>(scale[c], (const u8*)(x.keyScales() + c * 32 + t * 8), in);
      load<false>(minimum[c], (const u8*)(x.keyMinima() + c * 32 + t * 8), in);
    }
  }
  DEVICE void loadValues(const Int4Head& x) {
    UNROLL for (int r = 0; r < RUNS; r++) {
      bool in = r * 32 < x.vSize;
      load<false>(v[r], (const u8*)(x.values() + (r * 32 + lane()) * 4), in);
      load<false>(range[r], (const u8*)(x.valueRanges() + (r * 8 + lane() / 4) * 4), in);
    }
  }
};

DEVICE u32 timesF16(u32 a, u32 b) {
  u32 y;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  return y;
}

// Int4Softmax is a warp's online softmax and P × V so far, of its two query heads 2t and 2t + 1. out is in units of CODE_UNIT.
template <int KC, int RUNS> struct Int4Softmax {
  using W = Int4Warp<KC, RUNS>;
  float out[W::TILES][4] = {}, minima[RUNS][2] = {}; // minima: what a lane's tokens add to a run
  float rowMax[2] = {-1e29f, -1e29f}, sum[2] = {0, 0}, unit, slack, shift[2];

  DEVICE Int4Softmax(const DecodeParams& p) {
    unit = LOG2E * (p.softcap == 0 ? p.scale : 1), slack = 4 * reciprocal(unit);
    UNROLL for (int i = 0; i < 2; i++) shift[i] = rowMax[i] * unit;
  }
  // scores of a group: number 4n + 2h + i is of token g + 8h + 16n and head i.
  static DEVICE void scores(float (&s)[8], const W& x, const Vec16 (&q)[KC]) {
    float minima[4] = {}, even[2][4] = {}, odd[2][4] = {};
    UNROLL for (int c = 0; c < KC; c++) {
      u32 scaled[4];
      UNROLL for (int e = 0; e < 4; e++) scaled[e] = timesF16(q[c].x[e], x.scale[c].x[e]);
      UNROLL for (int e = 0; e < 2; e++) {
        u32 a = x.minimum[c].x[2 * e], b = x.minimum[c].x[2 * e + 1];
        mmaF16(minima, a, a, b, b, q[c].x[2 * e], q[c].x[2 * e + 1]);
      }
      UNROLL for (int n = 0; n < 2; n++) {
        u32 a = x.k[c].x[2 * n], b = x.k[c].x[2 * n + 1];
        mmaF16(even[n], codePair<0>(a), codePair<0>(b), codePair<2>(a), codePair<2>(b), scaled[0], scaled[2]);
        mmaF16(odd[n], codePair<1>(a), codePair<1>(b), codePair<3>(a), codePair<3>(b), scaled[1], scaled[3]);
      }
    }
    UNROLL for (int i = 0; i < 8; i++)
      s[i] = __builtin_fmaf(even[i / 4][i % 4], 1 / CODE_UNIT, __builtin_fmaf(odd[i / 4][i % 4], 1 / (16 * CODE_UNIT), minima[i & 1]));
  }
  DEVICE void add(const W& x, float (&score)[8]) {
    float now[2] = {-1e30f, -1e30f};
    UNROLL for (int i = 0; i < 8; i++) now[i & 1] = maxf(now[i & 1], score[i]);
    if (anySync(now[0] > rowMax[0] + slack || now[1] > rowMax[1] + slack)) raiseMax(now);
    UNROLL for (int i = 0; i < 8; i++) {
      score[i] = exp2(__builtin_fmaf(score[i], unit, -shift[i & 1]));
      sum[i & 1] += score[i];
    }
    UNROLL for (int r = 0; r < RUNS; r++) {
      u32 b[4];
      UNROLL for (int h = 0; h < 4; h++) {
        float scale = Int4Head::scaleOf(x.range[r].x[h]), minimum = Int4Head::minimumOf(x.range[r].x[h]);
        UNROLL for (int i = 0; i < 2; i++) minima[r][i] = __builtin_fmaf(score[2 * h + i], minimum, minima[r][i]);
        if (h % 2) scale *= 1.0f / 16;
        b[h] = transpose8(packF16(score[2 * h] * scale, score[2 * h + 1] * scale));
      }
      UNROLL for (int j = 0; j < 2; j++) {
        u32 low = x.v[r].x[2 * j], high = x.v[r].x[2 * j + 1];
        float(&o)[4] = out[2 * r + j];
        mmaF16(o, codePair<0>(low), codePair<0>(high), codePair<1>(low), codePair<1>(high), b[0], b[1]);
        mmaF16(o, codePair<2>(low), codePair<2>(high), codePair<3>(low), codePair<3>(high), b[2], b[3]);
      }
    }
  }
  DEVICE void raiseMax(float (&now)[2]) {
    UNROLL for (int i = 0; i < 2; i++) {
      UNROLL for (int m = 4; m <= 16; m *= 2) now[i] = maxf(now[i], shuffleXor(now[i], m));
      now[i] = maxf(now[i], rowMax[i]);
      float rescale = exp2((rowMax[i] - now[i]) * unit);
      rowMax[i] = now[i], shift[i] = rowMax[i] * unit;
      sum[i] *= rescale;
      UNROLL for (int r = 0; r < RUNS; r++) minima[r][i] *= rescale;
      UNROLL for (int j = 0; j < W::TILES; j++) out[j][i] *= rescale, out[j][i + 2] *= rescale;
    }
  }
  template <int WIDTH> DEVICE void store(WarpPartials<WIDTH>& warps) {
    UNROLL for (int i = 0; i < 2; i++) UNROLL for (int m = 4; m <= 16; m *= 2) {
      sum[i] += shuffleXor(sum[i], m);
      UNROLL for (int r = 0; r < RUNS; r++) minima[r][i] += shuffleXor(minima[r][i], m);
    }
    int g = lane() / 4, t = lane() % 4;
    UNROLL for (int i = 0; i < 2; i++) if (g == 0) warps.rowMax[warp()][t * 2 + i] = shift[i], warps.sum[warp()][t * 2 + i] = sum[i];
    UNROLL for (int j = 0; j < W::TILES; j++) UNROLL for (int i = 0; i < 4; i++)
      warps.out[warp()][t * 2 + (i & 1)][j * 16 + i / 2 * 8 + g] = out[j][i] * (1 / CODE_UNIT) + minima[j / 2][i & 1];
  }
};

// newest is attention to the tokens of the query's own group that it may see, in 16 bits.
template <typename S> DEVICE void newest(const Int4DecodeParams& n, const bf16* query, bool in, int seq, int kv, int first, int length, WarpPartials<S::WIDTH>& warps) {
  const DecodeParams& p = n.decode;
  const Step& s = p.step;
  typename S::Query q;
  S::loadQuery(q, query, in, p.kSize);
  OnlineSoftmax<S> sums(p, q);
  Pages<f16> cache = {n.newest, p.kvHeads, p.kSize, p.vSize, s.pageShift};
  const KVAddresses<f16> places = S::places(cache, kv);
  S x = {};
  for (int token0 = groupOf(length - 1); token0 < length; token0 += 16) {
    int page = n.newestPages[(long)seq * s.seqPages + (token0 >> s.pageShift)];
    x.loadKeys(places, page, token0, p.kSize);
    x.loadValues(places, page, token0, p.vSize);
    typename S::Scores raw = {};
    UNROLL for (int i = 0; i < S::PRODUCTS; i++) x.score(raw, q, i);
    float score[4];
    UNROLL for (int i = 0; i < 4; i++) {
      int token = token0 + lane() / 4 + i / 2 * 8;
      score[i] = x.scoreOf(raw, i);
      if (p.softcap != 0) score[i] = p.softcap * tanhf(score[i] * (p.scale / p.softcap));
      if (token < first || token >= length) score[i] = -__builtin_inff();
    }
    x.clearBehind(length - token0);
    sums.add(x, score);
  }
  sums.store(warps);
}

// KC × 32 is the room for heads; S holds 16 tokens of as many numbers.
template <int KC, typename S> DEVICE void decode(const Int4DecodeParams& n) {
  SHARED static WarpPartials<S::WIDTH> warps;
  SHARED static SplitPartials parts;
  launchDependents();
  const DecodeParams& p = n.decode;
  const Step& s = p.step;
  int share = p.heads / p.kvHeads, blocksPerKV = ceilDiv(share, HEADS);
  int kv = blockY() / blocksPerKV, head0 = kv * share + blockY() % blocksPerKV * HEADS;
  int heads = mini(HEADS, (kv + 1) * share - head0), seq = blockZ(), g = lane() / 4;
  // The step's data is uploaded before any kernel of the step, so it needs no wait.
  int row = s.qStart[seq], next = s.qStart[seq + 1], length = s.kvLen[seq];
  if (seq >= s.counts[COUNT_SEQS] || next - row != 1) return; // no sequence, or prefill's work
  const Int4Split split(p, length);
  if (blockX() >= split.active) return;
  const bf16* query = p.q + ((long)row * p.heads + head0 + g) * p.kSize;
  gridDependencyWait();
  if (warp() == GROUP_WARPS) {
    if (blockX() == split.active - 1) newest<S>(n, query, g < heads, seq, kv, split.first, length, warps);
    else if (lane() < HEADS) warps.rowMax[warp()][lane()] = -1e29f, warps.sum[warp()][lane()] = 0;
    if (blockX() != split.active - 1)
      for (int i = lane(); i < HEADS * S::WIDTH; i += 32) warps.out[warp()][0][i] = 0;
  } else {
    const int* pages = s.pages + (long)seq * s.seqPages;
    int at = split.group0 + blockX() * split.each + warp(), end = mini(split.group0 + split.groups, split.group0 + (blockX() + 1) * split.each);
    Int4Pages cache = {p.cache, p.kvHeads, p.kSize, p.vSize, s.pageShift};
    auto headOf = [&](int group) { return cache.head(pages[group >> (s.pageShift - GROUP_SHIFT)], group * GROUP, kv); };
    Int4Warp<KC, S::WIDTH / 32> x = {};
    Int4Head ahead = {};
    if (at < end) {
      ahead = headOf(at);
      x.loadKeys(ahead), x.loadValues(ahead);
    }
    Vec16 q[KC];
    UNROLL for (int c = 0; c < KC; c++) {
      int d = c * 32 + lane() % 4 * 8;
      q[c] = bf16ToF16(loadOnce(query + d, g < heads && d < p.kSize));
    }
    Int4Softmax<KC, S::WIDTH / 32> sums(p);
    for (; at < end; at += GROUP_WARPS) {
      bool more = at + GROUP_WARPS < end;
      if (more) ahead = headOf(at + GROUP_WARPS);
      float score[8];
      sums.scores(score, x, q);
      if (more) x.loadKeys(ahead);
      UNROLL for (int i = 0; i < 8; i++) {
        if (p.softcap != 0) score[i] = p.softcap * tanhf(score[i] * (p.scale / p.softcap));
        if (at * GROUP + g + i / 2 * 8 < split.first) score[i] = -__builtin_inff();
      }
      sums.add(x, score);
      if (more) x.loadValues(ahead);
    }
    sums.store(warps);
  }
  barrier();
  BlockWork mine = {row, head0, heads, seq * gridY() + blockY(), split.active};
  combineWarps(p, mine, warps);
  if (split.active > 1 && isLastSplit(p, mine)) combineSplits(p, mine, parts);
}
KERNEL(160, 2) decode64_i4(PARAM Int4DecodeParams p) { decode<2, KV16<f16, 2, 1>>(p); }
KERNEL(160, 2) decode128_i4(PARAM Int4DecodeParams p) { decode<4, KV16<f16, 4, 2>>(p); }
KERNEL(160, 1) decode256_i4(PARAM Int4DecodeParams p) { decode<8, KV16<f16, 8, 4>>(p); }
