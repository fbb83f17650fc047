// Rows of several residual streams, one behind the other (AltUp), parts of rows, rows times a weight, and the threshold of a row
// (graph.ExpandStreams and what follows it there). A block takes one row; sums are float32 in a fixed order.
#include "../cuda.h"

struct StreamsParams {
  const void *x, *other; // [rows, streams × size] or [rows, width]; a second input, whose rows each kernel says
  const void* coefs;     // [rows, …] of x's type, or null
  const float* weight;   // [size]
  void* y;
  int streams, size, width, from;
  float by;
};

template <typename T> DEVICE float number(const void* x, long i) { return toFloat(((const T*)x)[i]); }

// expand writes row x [size] and behind it the streams of other [(streams - 1) × size], each brought to the root mean square of x. A mean
// square counts as `by` at least.
template <typename T> DEVICE void expand(const StreamsParams& p) {
  SHARED static float scratch[32];
  launchDependentsAndWait();
  long row = blockX(), x = row * p.size, other = row * (p.streams - 1) * p.size;
  T* y = (T*)p.y + row * p.streams * p.size;
  float squares = 0;
  for (int i = threadX(); i < p.size; i += threads()) {
    T v = ((const T*)p.x)[x + i];
    y[i] = v;
    squares += toFloat(v) * toFloat(v);
  }
  float mean = blockSum(squares, scratch) / p.size;
  for (int j = 1; j < p.streams; j++, other += p.size) {
    float own = 0;
    for (int i = threadX(); i < p.size; i += threads()) {
      float v = number<T>(p.other, other + i);
      own += v * v;
    }
    own = maxf(blockSum(own, scratch) / p.size, p.by);
    float scale = __builtin_sqrtf(mean) * rsqrt(own);
    for (int i = threadX(); i < p.size; i += threads()) y[j * p.size + i] = fromFloat<T>(scale * number<T>(p.other, other + i));
  }
}

// mix adds to each stream j the sum over streams i of coefs[j × streams + i] × stream i.
template <typename T> DEVICE void mix(const StreamsParams& p) {
  launchDependentsAndWait();
  long row = blockX(), x = row * p.streams * p.size, coefs = row * p.streams * p.streams;
  for (int i = threadX(); i < p.streams * p.size; i += threads()) {
    int j = i / p.size, k = i % p.size;
    float sum = number<T>(p.x, x + i);
    for (int s = 0; s < p.streams; s++) sum += number<T>(p.coefs, coefs + j * p.streams + s) * number<T>(p.x, x + (long)s * p.size + k);
    ((T*)p.y)[x + i] = fromFloat<T>(sum);
  }
}

// add adds row other [size] to the streams from `from` on, times 1 + coefs[stream] if there are coefficients.
template <typename T> DEVICE void add(const StreamsParams& p) {
  launchDependentsAndWait();
  long row = blockX(), x = row * p.streams * p.size, other = row * p.size;
  for (int i = threadX(); i < p.streams * p.size; i += threads()) {
    int j = i / p.size, k = i % p.size;
    float v = number<T>(p.x, x + i);
    float by = p.coefs ? 1 + number<T>(p.coefs, row * p.streams + j) : 1;
    if (j >= p.from) v += by * number<T>(p.other, other + k);
    ((T*)p.y)[x + i] = fromFloat<T>(v);
  }
}

// mean is the mean of the streams.
template <typename T> DEVICE void mean(const StreamsParams& p) {
  launchDependentsAndWait();
  long row = blockX(), x = row * p.streams * p.size;
  for (int k = threadX(); k < p.size; k += threads()) {
    float sum = 0;
    for (int j = 0; j < p.streams; j++) sum += number<T>(p.x, x + (long)j * p.size + k);
    ((T*)p.y)[row * p.size + k] = fromFloat<T>(sum / p.streams);
  }
}

// columns is numbers [from, from + size) of a row of width.
template <typename T> DEVICE void columns(const StreamsParams& p) {
  launchDependentsAndWait();
  long row = blockX();
  for (int i = threadX(); i < p.size; i += threads()) ((T*)p.y)[row * p.size + i] = ((const T*)p.x)[row * p.width + p.from + i];
}

// scale multiplies a row of width by a weight of size numbers: as many, or one.
template <typename T> DEVICE void scale(const StreamsParams& p) {
  launchDependentsAndWait();
  long row = (long)blockX() * p.width;
  for (int i = threadX(); i < p.width; i += threads()) ((T*)p.y)[row + i] = fromFloat<T>(number<T>(p.x, row + i) * p.weight[p.size > 1 ? i : 0]);
}

// sums is the sum of the squares of a row's numbers, behind the sum of the numbers themselves if size is 2.
template <typename T> DEVICE void sums(const StreamsParams& p) {
  SHARED static float scratch[32];
  launchDependentsAndWait();
  long row = blockX();
  float plain = 0, squares = 0;
  for (int i = threadX(); i < p.width; i += threads()) {
    float v = number<T>(p.x, row * p.width + i);
    plain += v;
    squares += v * v;
  }
  squares = blockSum(squares, scratch);
  plain = blockSum(plain, scratch);
  if (threadX() == 0) {
    float* y = (float*)p.y + row * p.size;
    if (p.size == 2) y[0] = plain;
    y[p.size - 1] = squares;
  }
}

// threshold is what of a row exceeds its mean by more than `by` standard deviations. Of a part of a row of `from` numbers, other has both sums of the whole.
template <typename T> DEVICE void threshold(const StreamsParams& p) {
  SHARED static float scratch[32];
  launchDependentsAndWait();
  long row = (long)blockX() * p.width;
  if (p.other) {
    const float* whole = (const float*)p.other + 2 * blockX();
    float mean = whole[0] / p.from, above = mean + p.by * __builtin_sqrtf(maxf(0, whole[1] / p.from - mean * mean));
    for (int i = threadX(); i < p.width; i += threads()) ((T*)p.y)[row + i] = fromFloat<T>(maxf(0, number<T>(p.x, row + i) - above));
    return;
  }
  float sum = 0, squares = 0;
  for (int i = threadX(); i < p.width; i += threads()) sum += number<T>(p.x, row + i);
  float mean = blockSum(sum, scratch) / p.width;
  for (int i = threadX(); i < p.width; i += threads()) {
    float v = number<T>(p.x, row + i) - mean;
    squares += v * v;
  }
  float above = mean + p.by * __builtin_sqrtf(blockSum(squares, scratch) / p.width);
  for (int i = threadX(); i < p.width; i += threads()) ((T*)p.y)[row + i] = fromFloat<T>(maxf(0, number<T>(p.x, row + i) - above));
}

KERNEL(256, 1) expand_f32(PARAM StreamsParams p) { expand<float>(p); }
KERNEL(256, 1) expand_bf16(PARAM StreamsParams p) { expand<bf16>(p); }
KERNEL(256, 1) mix_f32(PARAM StreamsParams p) { mix<float>(p); }
KERNEL(256, 1) mix_bf16(PARAM StreamsParams p) { mix<bf16>(p); }
KERNEL(256, 1) add_f32(PARAM StreamsParams p) { add<float>(p); }
KERNEL(256, 1) add_bf16(PARAM StreamsParams p) { add<bf16>(p); }
KERNEL(256, 1) mean_f32(PARAM StreamsParams p) { mean<float>(p); }
KERNEL(256, 1) mean_bf16(PARAM StreamsParams p) { mean<bf16>(p); }
KERNEL(256, 1) columns_f32(PARAM StreamsParams p) { columns<float>(p); }
KERNEL(256, 1) columns_bf16(PARAM StreamsParams p) { columns<bf16>(p); }
KERNEL(256, 1) scale_columns_f32(PARAM StreamsParams p) { scale<float>(p); }
KERNEL(256, 1) scale_columns_bf16(PARAM StreamsParams p) { scale<bf16>(p); }
KERNEL(256, 1) sums_f32(PARAM StreamsParams p) { sums<float>(p); }
KERNEL(256, 1) sums_bf16(PARAM StreamsParams p) { sums<bf16>(p); }
KERNEL(256, 1) threshold_f32(PARAM StreamsParams p) { threshold<float>(p); }
KERNEL(256, 1) threshold_bf16(PARAM StreamsParams p) { threshold<bf16>(p); }
