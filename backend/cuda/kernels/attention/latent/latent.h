// What the kernels of attention to latent caches share.
#pragma once
#include "../warp_pairs.h"

struct LatentParams {
  Step step;
  const bf16* q;       // [T, heads × kSize]
  const u8* cache;     // pages of [tokens][kSize]
  bf16* y;             // [T, heads × vSize]
  const float* chosen; // [T, most] keys, -1 behind them, or null
  float* partial;      // [T × blocks of heads][splits][64][vSize + 2]: unscaled P × V, row max, row sum
  const int* treeLen;  // [S] or null; rows of sequences with a token tree are another kernel's, unless keys are chosen
  const u64* ancestors; // [T] of rows of trees; see backend.Batch
  int heads, kSize, vSize, most, splits;
  float scale;
};

// LatentRow is a row, and which of its sequence's keys a split of it attends to: places [first, end) of those that it sees, or of those that are chosen.
struct LatentRow {
  int row, seq, first, end;

  DEVICE LatentRow(const LatentParams& p, int row, int split, int tile) : row(row), seq(0), first(0), end(-1) {
    const Step& s = p.step;
    if (row >= s.counts[COUNT_TOKENS]) return;
    seq = s.rowSeq[row];
    int keys = s.kvLen[seq] - s.qStart[seq + 1] + row + 1, tree = p.treeLen ? p.treeLen[seq] : 0;
    if (p.chosen) { // as many are chosen as the row sees, at most (graph.TopKeys)
      int base = s.kvLen[seq] - tree;
      if (keys > base) keys = base + __builtin_popcountll(p.ancestors[row]);
      keys = mini(keys, p.most);
    } else if (tree) {
      return;
    }
    int each = ceilDiv(ceilDiv(keys, p.splits), tile) * tile;
    first = split * each, end = mini(keys, first + each);
  }
  DEVICE bool skipped() const { return end < 0; } // the row is none of this kernel's
};
