// What the kernels of an indexer share (graph.TopKeys): its parameters, and which keys a row sees.
#pragma once
#include "../../kv_cache.h"

struct TopKeysParams {
  Step step;
  const void *q, *w; // [T, heads × size], [T, heads]
  u8* cache;         // a latent cache of keys of this size
  float* scores;     // [rows of a pass][stride]
  float* chosen;     // [T, topK]
  int heads, size, topK, stride;
  int row0, unused; // the pass's first row
  const int* treeLen;   // [S] rows of a sequence's token tree, its last ones, or null; see backend.Batch
  const u64* ancestors; // [T] of rows of trees: those of the tree that the row sees, a bit each
};

// IndexRow is a row of a pass, and the keys that it sees: `seen` of [0, end), of a sequence that has `keys` after the step. Of a row of a token tree
// these are all keys before the tree, and those of the tree that it descends from.
struct IndexRow {
  int row, seq, end, seen, keys, base;
  u64 tree; // bit i: it sees key base + i
  float* scores;

  DEVICE IndexRow(const TopKeysParams& p, int of) {
    const Step& s = p.step;
    row = p.row0 + of, seq = end = seen = keys = base = 0, tree = 0, scores = p.scores + (long)of * p.stride;
    if (row >= s.counts[COUNT_TOKENS]) return;
    seq = s.rowSeq[row], keys = s.kvLen[seq], end = seen = base = keys - s.qStart[seq + 1] + row + 1;
    int before = p.treeLen ? keys - p.treeLen[seq] : keys;
    if (end > before) base = before, tree = p.ancestors[row], seen = base + __builtin_popcountll(tree);
  }
  // all reports whether there is nothing to choose: the row has all keys that it sees.
  DEVICE bool all(const TopKeysParams& p) const { return seen <= p.topK; }
  DEVICE bool sees(int key) const { return key < base || (key < end && (tree >> (key - base) & 1)); }

  // page is where a page of the sequence's keys begins.
  DEVICE u8* page(const TopKeysParams& p, int key, int bytes) const {
    long id = p.step.pages[(long)seq * p.step.seqPages + (key >> p.step.pageShift)];
    return p.cache + (id * bytes << p.step.pageShift);
  }
};
