// A row of logits as the passes read it, and the order of its tokens.
#pragma once
#include "block.h"

constexpr float NEVER = -__builtin_inff();

// placeOf orders tokens, the likeliest first: by logit, then the lower id. 0xff80… and beyond are -inf and NaN.
DEVICE u64 placeOf(float x, int id) {
  u32 bits = __builtin_bit_cast(u32, x + 0.0f); // -0 is 0
  u32 rising = bits >> 31 ? ~bits : bits | 0x80000000u;
  return (u64)~rising << 32 | (u32)id;
}
constexpr u64 NOWHERE = ~0ull;

DEVICE float logitAt(u64 place) {
  u32 rising = ~(u32)(place >> 32);
  return __builtin_bit_cast(float, rising >> 31 ? rising & 0x7fffffffu : ~rising);
}

// View is a row with its edits applied and masked tokens left out.
struct View {
  const void* row;
  int vocab;
  const u32* skip; // bitmap of the tokens to leave out; null: none
  const Edit* edits;
  int numEdits;
};

template <typename T> DEVICE void load8(const T* p, float (&x)[8]);
template <> DEVICE void load8(const bf16* p, float (&x)[8]) {
  Vec16 v = *(const Vec16*)p;
  UNROLL for (int j = 0; j < 4; j++) x[2 * j] = low(v.x[j]), x[2 * j + 1] = high(v.x[j]);
}
template <> DEVICE void load8(const float* p, float (&x)[8]) {
  UNROLL for (int h = 0; h < 2; h++) {
    Vec16 v = *(const Vec16*)(p + 4 * h);
    UNROLL for (int j = 0; j < 4; j++) x[4 * h + j] = __builtin_bit_cast(float, v.x[j]);
  }
}

// each calls f(id, logit) for this thread's share of a row, ids rising, then for its share of the edited tokens.
template <typename T, typename F> DEVICE void each(const View& v, F f) {
  constexpr int BATCH = 4 / sizeof(T); // loads of 8 tokens in flight at once
  const T* row = (const T*)v.row;
  const u8* skip = (const u8*)v.skip;
  int vectorised = ((u64)row & 15) == 0 ? v.vocab & ~7 : 0;
  _Pragma("nounroll") for (int first = threadX() * 8; first < vectorised; first += BATCH * THREADS * 8) {
    float x[BATCH][8];
    UNROLL for (int b = 0; b < BATCH; b++) {
      int at = first + b * THREADS * 8;
      if (at < vectorised) load8(row + at, x[b]);
    }
    UNROLL for (int b = 0; b < BATCH; b++) {
      int at = first + b * THREADS * 8;
      if (at >= vectorised) break;
      u32 out = skip ? skip[at / 8] : 0;
      UNROLL for (int j = 0; j < 8; j++)
        if (!(out >> j & 1)) f(at + j, x[b][j]);
    }
  }
  _Pragma("nounroll") for (int i = vectorised + threadX(); i < v.vocab; i += THREADS)
    if (!skip || !(skip[i / 8] >> (i & 7) & 1)) f(i, toFloat(row[i]));
  _Pragma("nounroll") for (int i = threadX(); i < v.numEdits; i += THREADS) f(v.edits[i].id, v.edits[i].value);
}

// likeliest is the place of the likeliest token of this thread's share.
template <typename T> DEVICE u64 likeliest(const View& v) {
  float best = NEVER;
  int id = -1;
  each<T>(v, [&](int i, float x) {
    if (x > best || (x == best && i < id)) best = x, id = i; // edits are not in order of ids
  });
  return id < 0 ? NOWHERE : placeOf(best, id);
}
