// A depthwise causal convolution over each sequence (graph.CausalConv). Its state is the inputs of the last width-1 tokens, the oldest
// first: [states][width-1][channels].
#include "recurrent.h"

struct CausalConvParams {
  Step step;
  const void* x;     // [T, channels]
  void* y;           // likewise
  float* states;     // [states][width-1][channels]
  const float* w;    // [channels][width]
  const float* bias; // [channels], or null
  int channels, width;
  int silu; // 1: followed by SiLU
};

constexpr int MAX_WIDTH = 8;

DEVICE float finish(const CausalConvParams& p, int c, float sum) {
  if (p.bias) sum += p.bias[c];
  return p.silu ? sum * sigmoid(sum) : sum;
}

// step: a thread is a channel of a sequence, and goes through its tokens. It is for steps of few tokens a sequence. No launch of a step before it writes states,
// so that they are on their way while the one before still runs.
template <typename T> DEVICE void convStep(const CausalConvParams& p) {
  launchDependents();
  int s = blockY(), c = blockX() * threads() + threadX();
  if (s >= p.step.counts[COUNT_SEQS] || c >= p.channels) return gridDependencyWait();
  int past = p.width - 1;
  Sequence q(p.step, s, p.states, (long)past * p.channels);
  float window[MAX_WIDTH], w[MAX_WIDTH];
  UNROLL for (int i = 0; i < MAX_WIDTH; i++) {
    window[i] = i < past && !q.fresh ? q.state[(long)i * p.channels + c] : 0;
    w[i] = i < p.width ? p.w[(long)c * p.width + i] : 0;
  }
  gridDependencyWait();
  for (int r = q.from; r < q.to; r++) {
    float x = toFloat(((const T*)p.x)[(long)r * p.channels + c]), sum = 0;
    UNROLL for (int i = 0; i < MAX_WIDTH; i++) {
      if (i == past) window[i] = x;
      sum += w[i] * window[i];
    }
    UNROLL for (int i = 0; i + 1 < MAX_WIDTH; i++) window[i] = window[i + 1];
    ((T*)p.y)[(long)r * p.channels + c] = fromFloat<T>(finish(p, c, sum));
  }
  UNROLL for (int i = 0; i < MAX_WIDTH; i++)
    if (i < past) q.state[(long)i * p.channels + c] = window[i];
}
KERNEL(128, 1) conv_step_f32(PARAM CausalConvParams p) { convStep<float>(p); }
KERNEL(128, 1) conv_step_bf16(PARAM CausalConvParams p) { convStep<bf16>(p); }

// before is the input of row r, of a sequence's row or, for r < q.from, of a token before the step.
template <typename T> DEVICE float before(const CausalConvParams& p, const Sequence& q, int r, int c) {
  if (r >= q.from) return toFloat(((const T*)p.x)[(long)r * p.channels + c]);
  return q.fresh ? 0 : q.state[(long)(p.width - 1 + r - q.from) * p.channels + c];
}

// rows: a thread is a channel of a row. The states stay as they are; state moves them on behind it.
template <typename T> DEVICE void convRows(const CausalConvParams& p) {
  launchDependentsAndWait();
  int r = blockY(), c = blockX() * threads() + threadX();
  if (r >= p.step.counts[COUNT_TOKENS] || c >= p.channels) return;
  Sequence q(p.step, p.step.rowSeq[r], p.states, (long)(p.width - 1) * p.channels);
  float sum = 0;
  for (int i = 0; i < p.width; i++) sum += p.w[(long)c * p.width + i] * before<T>(p, q, r - p.width + 1 + i, c);
  ((T*)p.y)[(long)r * p.channels + c] = fromFloat<T>(finish(p, c, sum));
}
KERNEL(128, 1) conv_rows_f32(PARAM CausalConvParams p) { convRows<float>(p); }
KERNEL(128, 1) conv_rows_bf16(PARAM CausalConvParams p) { convRows<bf16>(p); }

// state: a thread is a channel of a sequence; the oldest first, since what replaces a row is newer.
template <typename T> DEVICE void convState(const CausalConvParams& p) {
  launchDependentsAndWait();
  int s = blockY(), c = blockX() * threads() + threadX();
  if (s >= p.step.counts[COUNT_SEQS] || c >= p.channels) return;
  Sequence q(p.step, s, p.states, (long)(p.width - 1) * p.channels);
  for (int i = 0; i + 1 < p.width; i++) q.state[(long)i * p.channels + c] = before<T>(p, q, q.to - p.width + 1 + i, c);
}
KERNEL(128, 1) conv_state_f32(PARAM CausalConvParams p) { convState<float>(p); }
KERNEL(128, 1) conv_state_bf16(PARAM CausalConvParams p) { convState<bf16>(p); }
