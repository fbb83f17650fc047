// Log-probabilities of the chosen token and of the likeliest.
#pragma once
#include "view.h"

// logarithm of x ≥ 1, to a few units in the last place of a double: x = 2^n · m, ln m = 2 artanh((m-1)/(m+1)).
DEVICE double logarithm(double x) {
  u64 bits = __builtin_bit_cast(u64, x);
  int n = (int)(bits >> 52) - 1023;
  double m = __builtin_bit_cast(double, (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) m /= 2, n++;
  double t = (m - 1) / (m + 1), q = t * t, sum = 0;
  for (int i = 21; i > 0; i -= 2) sum = sum * q + 1.0 / i;
  return n * 0.69314718055994531 + 2 * t * sum;
}

// report writes the log-probabilities, from the row as the model gave it.
template <typename T> DEVICE void report(const View& raw, const Row& r, int token, Result& out, Shared& s) {
  u64 mine = likeliest<T>(raw);
  u64 best = blockMin(mine, s);
  float top = logitAt(best);
  double sum = 0;
  each<T>(raw, [&](int, float x) { sum += x > NEVER ? exp2((x - top) * LOG2E) : 0.0f; });
  sum = blockAdd(sum, s);
  double total = (double)top + logarithm(sum);
  if (threadX() == 0) out.logprob = (float)((double)toFloat(((const T*)raw.row)[token]) - total);
  int n = 0;
  for (; n < r.tops && best != NOWHERE; n++) {
    if (threadX() == 0) out.top[n] = Top{(int)(u32)best, (float)((double)logitAt(best) - total)};
    if (mine == best) { // this thread's next-likeliest token
      mine = NOWHERE;
      each<T>(raw, [&](int i, float x) {
        u64 place = placeOf(x, i);
        if (x > NEVER && place > best && place < mine) mine = place;
      });
    }
    best = blockMin(mine, s);
  }
  if (threadX() == 0) out.tops = n;
}
