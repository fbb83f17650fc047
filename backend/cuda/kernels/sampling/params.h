// What a launch is told and what it answers; sample.go mirrors these.
#pragma once
#include "../cuda.h"

constexpr int MAXTOP = 20;

struct Edit {
  int id;
  float value; // what to add; then the logit itself
  int seen, counted;
};
struct Row {
  double slope;  // y of a logit
  double topP, typicalP, u;
  double minY;   // tokens further down are dropped; infinity: none
  int row, greedy, topK, fed;
  int mask;      // its first word; -1: none
  int edits, numEdits; // the first and how many; behind them is room for one more
  int logprob, tops;
  float repetition, frequency, presence;
};
struct Top { int token; float logprob; };
struct Result {
  int token, failure;
  float logprob;
  int tops;
  Top top[MAXTOP];
};
struct SampleParams {
  const void* logits; // [L, vocab]
  const Row* rows;    // a block each
  Edit* edits;
  const u32* masks;
  const int* fed;     // tokens that the step before chose
  int* drawn;         // tokens for the step after
  Result* results;
  int vocab;
};

static_assert(sizeof(Row) == 88 && sizeof(Result) == 176, "sample.go says the same");
