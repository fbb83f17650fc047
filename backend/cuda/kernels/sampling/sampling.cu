// Sampling tokens from rows of logits on the device: one block a row. backend/sampling.Sample defines the settings of a row. The row is
// read in several passes, mostly from the L2 cache:
//
//   mask, edits   masked and edited tokens are marked in a bitmap in shared memory, which every pass reads; edited tokens are processed
//                 separately, after the row
//   top           the likeliest token: greedy ends here
//   count         tokens by weight, in 64ths of an octave below the top one (bins), with the bins' masses
//   find          once for each filter, and for the sample: the bin of the token of a rank, or at which the prefix sum of weights reaches
//                 a goal; then the bin's tokens, in order
//   typical       a second order, of what the filters left: by repeated subdivision instead of bins
//
// Weights are 2^(-y/64). Within bin b a weight is 2^(-b/64) · (1 - d/2^20) with an integer d, so that masses of a bin are integers:
// sums do not depend on the order of threads, and the same settings give the same token.
#include "edit.h"
#include "find.h"
#include "report.h"
#include "typical.h"

// choose filters the row and samples: the token is the low 32 bits of its result.
template <typename T> DEVICE u64 choose(const View& v, const Row& r, float top, Shared& s) {
  Scale k = {top, (float)r.slope, NEVER};
  if (r.minY < 1e300) { // just under the logit at minY, so that rounding loses no token that is there
    float x = (float)((double)top - r.minY / r.slope);
    u32 bits = __builtin_bit_cast(u32, x);
    k.floor = x == 0 ? -1e-45f : __builtin_bit_cast(float, x > 0 ? bits - 1 : bits + 1);
  }
  countBins<T>(v, k, s);
  Found f = {NOWHERE, s.mass[THREADS - 1]};
  _Pragma("nounroll") for (int filter = 0; filter < 3; filter++) { // top-k, top-p and the draw itself
    if (filter == 2 && r.typicalP < 1) return drawTypical<T>(v, k, r, f.place, f.mass, s);
    Goal goal = {0, f.mass * (filter == 1 ? r.topP : r.u)};
    if (filter == 0) goal.rank = r.topK < s.tokens[THREADS - 1] ? r.topK : 0;
    if (filter == 0 ? goal.rank > 0 : filter == 2 || r.topP < 1) f = find<T>(v, k, goal, s);
  }
  return f.place;
}

template <typename T> DEVICE void sample(const SampleParams& p) {
  extern SHARED u64 memory[];
  Shared& s = *(Shared*)memory;
  u32* skip = (u32*)(&s + 1);
  launchDependentsAndWait();
  const Row& r = p.rows[blockX()];
  Result& out = p.results[blockX()];
  const T* row = (const T*)p.logits + (long)r.row * p.vocab;
  View v = edit<T>(p, r, row, skip, s);
  u64 place = blockMin(likeliest<T>(v), s);
  int failure = place == NOWHERE ? 1 : logitAt(place) == __builtin_inff() ? 2 : 0;
  if (failure == 0 && !r.greedy) place = choose<T>(v, r, logitAt(place), s);
  int token = failure == 1 ? 0 : (int)(u32)place;
  if (threadX() == 0) {
    out.token = p.sampled[blockX()] = token;
    out.failure = failure;
    out.logprob = 0;
    out.tops = 0;
  }
  if (r.logprob && failure == 0) report<T>(View{row, p.vocab, nullptr, nullptr, 0}, r, token, out, s);
}
KERNEL(THREADS, 2) sample_bf16(PARAM SampleParams p) { sample<bf16>(p); }
KERNEL(THREADS, 2) sample_f32(PARAM SampleParams p) { sample<float>(p); }
