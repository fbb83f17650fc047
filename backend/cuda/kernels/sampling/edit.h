// Masks, biases and penalties: the tokens of a row whose logits differ from the model's.
#pragma once
#include "view.h"

// edit computes the logits of edited tokens and marks edited and masked tokens in the bitmap.
template <typename T> DEVICE View edit(const SampleParams& p, const Row& r, const T* row, u32* skip, Shared& s) {
  View v = {row, p.vocab, nullptr, p.edits + r.edits, r.numEdits};
  if (r.mask < 0 && r.numEdits == 0 && r.previous < 0) return v;
  v.skip = skip;
  const u32* mask = r.mask < 0 ? nullptr : p.masks + r.mask;
  for (int i = threadX(); i < ceilDiv(p.vocab, 32); i += THREADS) skip[i] = mask ? ~mask[i] : 0;
  Edit* edits = p.edits + r.edits;
  int previous = r.previous < 0 ? -1 : p.previous[r.previous];
  if (threadX() == 0) s.extra = previous < 0 ? 0 : 1;
  barrier();
  for (int i = threadX(); i < r.numEdits; i += THREADS)
    if (edits[i].id == previous) {
      edits[i].seen++, edits[i].counted++;
      s.extra = 0;
    }
  barrier();
  v.numEdits += s.extra;
  if (s.extra && threadX() == 0) edits[r.numEdits] = Edit{previous, 0, 1, 1};
  barrier();
  for (int i = threadX(); i < v.numEdits; i += THREADS) {
    Edit& e = edits[i];
    float x = __nvvm_add_rn_f(toFloat(row[e.id]), e.value);
    if (e.seen > 0) x = x > 0 ? __nvvm_div_rn_f(x, r.repetition) : __nvvm_mul_rn_f(x, r.repetition);
    if (e.counted > 0) x = __nvvm_add_rn_f(x, -__nvvm_add_rn_f(__nvvm_mul_rn_f(r.frequency, (float)e.counted), r.presence));
    if (mask && !(mask[e.id / 32] >> (e.id & 31) & 1)) x = NEVER;
    e.value = x;
    sharedOr(&skip[e.id / 32], 1u << (e.id & 31));
  }
  barrier();
  return v;
}
