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
};

// IndexRow is a row of a pass, and the keys that it sees: [0, seen), of a sequence that has `keys` after the step.
struct IndexRow {
  int row, seq, seen, keys;
  float* scores;

  DEVICE IndexRow(const TopKeysParams& p, int of) {
    const Step& s = p.step;
    row = p.row0 + of, seq = seen = keys = 0, scores = p.scores + (long)of * p.stride;
    if (row >= s.counts[COUNT_TOKENS]) return;
    seq = s.rowSeq[row], keys = s.kvLen[seq], seen = keys - s.qStart[seq + 1] + row + 1;
  }
  // one reports whether there is nothing to choose: the row has all keys that it sees.
  DEVICE bool all(const TopKeysParams& p) const { return seen <= p.topK; }

  // page is where a page of the sequence's keys begins.
  DEVICE u8* page(const TopKeysParams& p, int key, int bytes) const {
    long id = p.step.pages[(long)seq * p.step.seqPages + (key >> p.step.pageShift)];
    return p.cache + (id * bytes << p.step.pageShift);
  }
};
