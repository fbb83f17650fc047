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

// tile: a thread is eight channels of TILE rows, of which it has the last WIDTH - 1 in registers. Rows are of one sequence or of several.
constexpr int TILE = 16, EACH = 8, AHEAD = 4; // AHEAD: rows whose loads are in flight at once
template <int WIDTH> DEVICE void convTile(const CausalConvParams& p) {
  launchDependentsAndWait();
  int c = (blockX() * threads() + threadX()) * EACH, first = blockY() * TILE, end = mini(first + TILE, p.step.counts[COUNT_TOKENS]);
  if (first >= end || c >= p.channels) return;
  const bf16* x = (const bf16*)p.x + c;
  float w[EACH * WIDTH], window[WIDTH - 1][EACH], bias[EACH];
  UNROLL for (int i = 0; i < EACH * WIDTH; i += 4) {
    Four f = *(const Four*)&p.w[(long)c * WIDTH + i];
    UNROLL for (int e = 0; e < 4; e++) w[i + e] = f.x[e];
  }
  UNROLL for (int j = 0; j < EACH; j++) bias[j] = p.bias ? p.bias[c + j] : 0;
  int s = p.step.rowSeq[first];
  long size = (long)(WIDTH - 1) * p.channels;
  Sequence q(p.step, s, p.states, size);
  auto open = [&](float (&to)[EACH], Vec16 from) { UNROLL for (int j = 0; j < EACH; j++) to[j] = j % 2 ? high(from.x[j / 2]) : low(from.x[j / 2]); };
  auto begin = [&](int r) { // what comes before row r of the sequence
    UNROLL for (int i = 0; i < WIDTH - 1; i++) {
      int at = r - WIDTH + 1 + i;
      if (at >= q.from) open(window[i], *(const Vec16*)(x + (long)at * p.channels));
      else UNROLL for (int j = 0; j < EACH; j++) window[i][j] = q.fresh ? 0 : q.state[(long)(WIDTH - 1 + at - q.from) * p.channels + c + j];
    }
  };
  begin(first);
#pragma unroll 1
  for (int r0 = first; r0 < end; r0 += AHEAD) {
    Vec16 rows[AHEAD];
    UNROLL for (int k = 0; k < AHEAD; k++) rows[k] = r0 + k < end ? *(const Vec16*)(x + (long)(r0 + k) * p.channels) : Vec16{};
    UNROLL for (int k = 0; k < AHEAD; k++) {
      int r = r0 + k;
      if (r >= end) break;
      if (r >= q.to) {
        do q = Sequence(p.step, ++s, p.states, size);
        while (r >= q.to);
        begin(r);
      }
      float now[EACH], y[EACH];
      open(now, rows[k]);
      UNROLL for (int j = 0; j < EACH; j++) {
        float sum = 0;
        UNROLL for (int i = 0; i < WIDTH - 1; i++) sum += w[j * WIDTH + i] * window[i][j];
        sum += w[j * WIDTH + WIDTH - 1] * now[j];
        if (p.bias) sum += bias[j];
        y[j] = p.silu ? sum * sigmoid(sum) : sum;
        UNROLL for (int i = 0; i + 1 < WIDTH - 1; i++) window[i][j] = window[i + 1][j];
        window[WIDTH - 2][j] = now[j];
      }
      Vec16 out;
      UNROLL for (int j = 0; j < EACH / 2; j++) out.x[j] = pack(y[2 * j], y[2 * j + 1]);
      *(Vec16*)((bf16*)p.y + (long)r * p.channels + c) = out;
    }
  }
}
KERNEL(128, 3) conv_tile3_bf16(PARAM CausalConvParams p) { convTile<3>(p); }
KERNEL(128, 3) conv_tile4_bf16(PARAM CausalConvParams p) { convTile<4>(p); }

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
