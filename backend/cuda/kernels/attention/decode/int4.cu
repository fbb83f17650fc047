// Flash-decoding over a KV cache in four bits: as decode.cu's, split-KV, with a block for one sequence, up to 8 query heads that share a key head and one of the parts of
// the keys. Each of four warps takes every fourth group of 32 tokens. The last warp of the last part begins with the tokens of the query's own group, which are in the
// residual cache in 16 bits; what they come to is a fifth partial result of the block.
//
// Codes become halves by masks alone, as subnormal numbers (kv_int4.h). Scales of keys' channels go into the query, S = (q × scale)·code + q·minimum, once for a
// group, and those of values' runs into P; what minima add is multiplied once for a group of keys, and is a sum of P × minimum for a run of values.
#include "../../kv_int4.h"
#include "online_softmax.h"

struct Int4DecodeParams {
  DecodeParams decode;
  u8* newest;             // the residual cache
  const int* newestPages; // [S × seqPages]
};
constexpr int NEWEST = WARPS, PARTIALS = WARPS + 1; // the newest tokens are a partial result of their own
constexpr int EVEN_KEYS = 512;                       // as decode.cu has it

// Int4Split is how a sequence's whole groups are split over blocks.
struct Int4Split {
  int first, group0, groups, each, active; // the first key that the query attends to; the first group, how many, of a split; splits that there are

  DEVICE Int4Split(const DecodeParams& p, int length) {
    first = p.window > 0 ? maxi(0, length - p.window) : 0;
    if (p.window < 0) first = (length - 1) - (length - 1) % -p.window;
    group0 = first >> GROUP_SHIFT, groups = maxi(0, ((length - 1) >> GROUP_SHIFT) - group0);
    each = maxi(ceilDiv(groups, maxi(p.fill, mini(groups * GROUP / EVEN_KEYS, p.splits))), (groups <= 3 * WARPS ? 3 : 2) * WARPS);
    active = maxi(1, ceilDiv(groups, each));
  }
};

extern SHARED u8 dynamic[];
constexpr int STAGES = 2; // groups of a warp that are in shared memory, or on their way there

// Int4Group is a head of a group in shared memory, as it lies in the cache. Lane 4g + t takes of keys g, g + 8, g + 16 and g + 24 the channels that start at its t, and of
// values the channels 8m + g of the tokens 2t, 2t + 1, 2t + 8 and so on.
struct Int4Group {
  u32 at;
  int kSize, vSize;

  DEVICE void load(const u8* from) const { // by a warp
    for (int i = lane() * 16; i < Int4Head::bytes(kSize, vSize); i += 32 * 16) cpAsync16(at + i, from + i, true);
  }
  static DEVICE Vec16 four(u32 at) {
    Vec16 x;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x[0]), "=r"(x.x[1]), "=r"(x.x[2]), "=r"(x.x[3]) : "r"(at) : "memory");
    return x;
  }
  DEVICE Vec16 keys(int c) const { return four(at + 4 * Int4Head::keyWord(c * 4 + lane() % 4, lane() / 4, 0)); }
  DEVICE Vec16 scales(int c) const { return four(at + 16 * kSize + 2 * (c * 32 + lane() % 4 * 8)); }
  DEVICE Vec16 minima(int c) const { return four(at + 18 * kSize + 2 * (c * 32 + lane() % 4 * 8)); }
  DEVICE Vec16 values(int r) const { return four(at + 20 * kSize + (r * 32 + lane()) * 16); }
  DEVICE Vec16 ranges(int r) const { return four(at + 20 * kSize + 16 * vSize + 4 * Int4Head::rangeWord(r, lane() / 4)); }
};

DEVICE u32 timesF16(u32 a, u32 b) {
  u32 y;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  return y;
}

// Int4Softmax is a warp's online softmax and P × V so far, of its two query heads 2t and 2t + 1. out is in units of CODE_UNIT.
// KC × 32 and RUNS × 32 are the head sizes there is room for.
template <int KC, int RUNS> struct Int4Softmax {
  float out[RUNS * 2][4] = {}, minima[RUNS][2] = {}; // minima: what a lane's tokens add to a run
  float rowMax[2] = {-1e29f, -1e29f}, sum[2] = {0, 0}, unit, slack, shift[2];

  DEVICE Int4Softmax(const DecodeParams& p) {
    unit = LOG2E * (p.softcap == 0 ? p.scale : 1), slack = 4 * reciprocal(unit);
    UNROLL for (int i = 0; i < 2; i++) shift[i] = rowMax[i] * unit;
  }
  // scores of a group: number 4n + 2h + i is of token g + 8h + 16n and head i.
  static DEVICE void scores(float (&s)[8], const Int4Group& x, const Vec16 (&q)[KC]) {
    float minima[4] = {}, even[2][4] = {}, odd[2][4] = {};
    UNROLL for (int c = 0; c < KC; c++) {
      if (c * 32 >= x.kSize) break;
      Vec16 k = x.keys(c), scaled = x.scales(c), minimum = x.minima(c);
      UNROLL for (int e = 0; e < 4; e++) scaled.x[e] = timesF16(q[c].x[e], scaled.x[e]);
      UNROLL for (int e = 0; e < 4; e += 2) mmaF16(minima, minimum.x[e], minimum.x[e], minimum.x[e + 1], minimum.x[e + 1], q[c].x[e], q[c].x[e + 1]);
      UNROLL for (int n = 0; n < 2; n++) {
        u32 a = k.x[2 * n], b = k.x[2 * n + 1];
        mmaF16(even[n], codePair<0>(a), codePair<0>(b), codePair<2>(a), codePair<2>(b), scaled.x[0], scaled.x[2]);
        mmaF16(odd[n], codePair<1>(a), codePair<1>(b), codePair<3>(a), codePair<3>(b), scaled.x[1], scaled.x[3]);
      }
    }
    UNROLL for (int i = 0; i < 8; i++)
      s[i] = __builtin_fmaf(even[i / 4][i % 4], 1 / CODE_UNIT, __builtin_fmaf(odd[i / 4][i % 4], 1 / (16 * CODE_UNIT), minima[i & 1]));
  }
  DEVICE void add(const Int4Group& x, float (&score)[8]) {
    float now[2] = {-1e30f, -1e30f};
    UNROLL for (int i = 0; i < 8; i++) now[i & 1] = maxf(now[i & 1], score[i]);
    if (anySync(now[0] > rowMax[0] + slack || now[1] > rowMax[1] + slack)) raiseMax(now);
    UNROLL for (int i = 0; i < 8; i++) {
      score[i] = exp2(__builtin_fmaf(score[i], unit, -shift[i & 1]));
      sum[i & 1] += score[i];
    }
    UNROLL for (int r = 0; r < RUNS; r++) {
      if (r * 32 >= x.vSize) break;
      Vec16 v = x.values(r), range = x.ranges(r);
      u32 b[4];
      UNROLL for (int h = 0; h < 4; h++) {
        float scale = Int4Head::scaleOf(range.x[h]), minimum = Int4Head::minimumOf(range.x[h]);
        UNROLL for (int i = 0; i < 2; i++) minima[r][i] = __builtin_fmaf(score[2 * h + i], minimum, minima[r][i]);
        if (h % 2) scale *= 1.0f / 16;
        b[h] = transpose8(packF16(score[2 * h] * scale, score[2 * h + 1] * scale));
      }
      UNROLL for (int j = 0; j < 2; j++) {
        u32 low = v.x[2 * j], high = v.x[2 * j + 1];
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
      UNROLL for (int j = 0; j < RUNS * 2; j++) out[j][i] *= rescale, out[j][i + 2] *= rescale;
    }
  }
  template <typename Partials> DEVICE void store(Partials& warps) {
    UNROLL for (int i = 0; i < 2; i++) UNROLL for (int m = 4; m <= 16; m *= 2) {
      sum[i] += shuffleXor(sum[i], m);
      UNROLL for (int r = 0; r < RUNS; r++) minima[r][i] += shuffleXor(minima[r][i], m);
    }
    int g = lane() / 4, t = lane() % 4;
    UNROLL for (int i = 0; i < 2; i++) if (g == 0) warps.rowMax[warp()][t * 2 + i] = shift[i], warps.sum[warp()][t * 2 + i] = sum[i];
    UNROLL for (int j = 0; j < RUNS * 2; j++) UNROLL for (int i = 0; i < 4; i++)
      warps.out[warp()][t * 2 + (i & 1)][j * 16 + i / 2 * 8 + g] = out[j][i] * (1 / CODE_UNIT) + minima[j / 2][i & 1];
  }
};

// newest is attention to the tokens of the query's own group that it may see, in 16 bits.
template <typename S> DEVICE void newest(const Int4DecodeParams& n, const bf16* query, bool in, int seq, int kv, int first, int length, WarpPartials<S::WIDTH, PARTIALS>& warps) {
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
  sums.store(warps, NEWEST);
}

// SharedLayout is a block's shared memory. Partial results of warps lie where the last of their groups were, that of the newest tokens behind, and those of splits where the
// first groups were.
template <int WIDTH> struct SharedLayout {
  using Warps = WarpPartials<WIDTH, PARTIALS>;
  static constexpr int RING = WARPS * STAGES * 40 * WIDTH, WARP_OUT = sizeof(float) * HEADS * WIDTH; // RING: groups of heads of WIDTH numbers
  static_assert(RING >= WARPS * WARP_OUT && RING >= (int)sizeof(SplitPartials), "partial results lie in the ring");
  static DEVICE u32 group(int stage) { return sharedAddress(dynamic) + (warp() * STAGES + stage) * 40 * WIDTH; }
  static DEVICE Warps& warps() { return *(Warps*)(dynamic + RING - WARPS * WARP_OUT); }
  static DEVICE SplitPartials& splits() { return *(SplitPartials*)dynamic; }
};

// KC × 32 is the room for heads; S holds 16 tokens of as many numbers.
template <int KC, typename S> DEVICE void decode(const Int4DecodeParams& n) {
  using Layout = SharedLayout<S::WIDTH>;
  auto& warps = Layout::warps();
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
  const int* pages = s.pages + (long)seq * s.seqPages;
  int at = split.group0 + blockX() * split.each + warp(), end = mini(split.group0 + split.groups, split.group0 + (blockX() + 1) * split.each);
  Int4Pages cache = {p.cache, p.kvHeads, p.kSize, p.vSize, s.pageShift};
  auto fetch = [&](int group, int stage) { // an empty one behind the last
    if (group < end) Int4Group{Layout::group(stage), p.kSize, p.vSize}.load(cache.head(pages[group >> (s.pageShift - GROUP_SHIFT)], group * GROUP, kv).at);
    cpAsyncCommit();
  };
  gridDependencyWait();
  UNROLL for (int i = 0; i < STAGES; i++) fetch(at + i * WARPS, i);
  bool last = blockX() == split.active - 1;
  if (last && warp() == WARPS - 1) newest<S>(n, query, g < heads, seq, kv, split.first, length, warps);
  if (!last && threadX() < HEADS) warps.rowMax[NEWEST][threadX()] = -1e29f, warps.sum[NEWEST][threadX()] = 0;
  if (!last)
    for (int i = threadX(); i < HEADS * S::WIDTH; i += WARPS * 32) warps.out[NEWEST][0][i] = 0;
  Vec16 q[KC];
  UNROLL for (int c = 0; c < KC; c++) {
    int d = c * 32 + lane() % 4 * 8;
    q[c] = bf16ToF16(loadOnce(query + d, g < heads && d < p.kSize));
  }
  Int4Softmax<KC, S::WIDTH / 32> sums(p);
  for (int stage = 0; at < end; at += WARPS, stage = (stage + 1) % STAGES) {
    cpAsyncWait<STAGES - 1>();
    warpBarrier(); // the group is here, of all lanes
    const Int4Group x = {Layout::group(stage), p.kSize, p.vSize};
    float score[8];
    sums.scores(score, x, q);
    UNROLL for (int i = 0; i < 8; i++) {
      if (p.softcap != 0) score[i] = p.softcap * tanhf(score[i] * (p.scale / p.softcap));
      if (at * GROUP + g + i / 2 * 8 < split.first) score[i] = -__builtin_inff();
    }
    sums.add(x, score);
    warpBarrier(); // it has been read
    fetch(at + STAGES * WARPS, stage);
  }
  barrier(); // all groups have been read
  sums.store(warps);
  barrier();
  BlockWork mine = {row, head0, heads, seq * gridY() + blockY(), split.active};
  combineWarps(p, mine, warps);
  if (split.active > 1 && isLastSplit(p, mine)) combineSplits(p, mine, Layout::splits());
}
KERNEL(128, 4) decode64_i4(PARAM Int4DecodeParams p) { decode<2, KV16<f16, 2, 1>>(p); }
KERNEL(128, 4) decode128_i4(PARAM Int4DecodeParams p) { decode<4, KV16<f16, 4, 2>>(p); }
KERNEL(128, 2) decode256_i4(PARAM Int4DecodeParams p) { decode<8, KV16<f16, 8, 4>>(p); }
