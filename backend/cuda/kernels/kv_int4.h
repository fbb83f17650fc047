// The layout of a layer's paged KV cache in four bits (KIVI, Liu et al., arXiv:2402.02750). A group of GROUP tokens of a head lies together: codes of its keys, scales
// and then minima of their channels, codes of its values, and scales and minima of runs of a token's numbers. Codes lie as the tensor cores' kernels
// want them: a lane finds those of its operands in words of its own, 16 bytes at a time.
#pragma once
#include "kv_cache.h"

constexpr int GROUP = 32, GROUP_SHIFT = 5; // tokens

// A word of keys has eight channels of a token, a word of values eight tokens of a channel. Its nibbles n and n + 4 are neighbours, so that two bits' masks and a
// shift make pairs of halves of it, as subnormal numbers: code × CODE_UNIT of pairs 0 and 2, and 16 times that of pairs 1 and 3.
constexpr float CODE_UNIT = 0x1p-24f;
template <int PAIR> DEVICE u32 codePair(u32 word) { return (PAIR < 2 ? word : word >> 8) & (PAIR % 2 ? 0x00f000f0u : 0x000f000fu); }
DEVICE int code(u32 word, int i) { return word >> (i / 2 * 4 + i % 2 * 16) & 15; } // number i of its eight

// Int4Head is one head of one group.
struct Int4Head {
  u8* at;
  int kSize, vSize;

  DEVICE int run() const { return vSize % GROUP == 0 ? GROUP : vSize; } // numbers of a token's values that share a scale
  static DEVICE int bytes(int kSize, int vSize) { return 20 * kSize + 16 * vSize + 4 * GROUP * (vSize % GROUP == 0 ? vSize / GROUP : 1); }
  // keyWord is eight channels, 8 × unit and on, of token g + 8h.
  static DEVICE int keyWord(int unit, int g, int h) { return (unit * 8 + g) * 4 + h; }
  // valueWord is channel 8m + g of tokens 2t, 2t + 1, 2t + 8, 2t + 9 and so on. Those of four m are neighbours, or of as many as there are.
  DEVICE int valueWord(int m, int g, int t) const { return m / 4 * 128 + (g * 4 + t) * mini(4, vSize / 8 - m / 4 * 4) + m % 4; }
  // rangeWord is the scale and the minimum of a run of a token.
  static DEVICE int rangeWord(int run, int token) { return (run * 8 + token % 8) * 4 + token / 8; }
  DEVICE u32* keys() const { return (u32*)at; }
  DEVICE f16* keyScales() const { return (f16*)(at + 16 * kSize); }
  DEVICE f16* keyMinima() const { return keyScales() + kSize; }
  DEVICE u32* values() const { return (u32*)(at + 20 * kSize); }
  DEVICE u32* valueRanges() const { return values() + 4 * vSize; }
  DEVICE float key(int token, int d) const {
    return (float)keyScales()[d] * code(keys()[keyWord(d / 8, token % 8, token / 8)], d % 8) + (float)keyMinima()[d];
  }
  DEVICE float value(int token, int d) const {
    u32 range = valueRanges()[rangeWord(d / run(), token)];
    return scaleOf(range) * code(values()[valueWord(d / 8, d % 8, token % 8 / 2)], token / 8 * 2 + token % 2) + minimumOf(range);
  }
  static DEVICE float scaleOf(u32 range) { return (float)__builtin_bit_cast(f16, (u16)range); }
  static DEVICE float minimumOf(u32 range) { return (float)__builtin_bit_cast(f16, (u16)(range >> 16)); }
};

// Int4Pages is a cache: pages of 2^shift tokens, in groups, in heads.
struct Int4Pages {
  u8* cache;
  int heads, kSize, vSize, shift;
  DEVICE Int4Head head(long page, int token, int h) const {
    int in = (token & ((1 << shift) - 1)) >> GROUP_SHIFT;
    return {cache + ((page << (shift - GROUP_SHIFT)) + in) * heads * Int4Head::bytes(kSize, vSize) + (long)h * Int4Head::bytes(kSize, vSize), kSize, vSize};
  }
};

// NewestTokens is the residual cache: the tokens of a sequence's last group, in IEEE halves, in pages of its own.
struct NewestTokens {
  u8* cache;
  const int* pages; // [S × seqPages]
  const int* slots; // [T]
};

// groupOf is the first token of a token's group.
DEVICE int groupOf(int token) { return token & ~(GROUP - 1); }
