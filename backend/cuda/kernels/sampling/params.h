// Parameters and results of a launch; sampling.go mirrors them.
#pragma once
#include "../cuda.h"

constexpr int MAXTOP = 20;

struct Edit {
  int id;
  float value; // the bias to add; then the edited logit
  int seen, counted;
};
struct Row {
  double slope;  // y per unit of logit: 64 / ln 2 / temperature
  double topP, typicalP, u;
  double minY;   // tokens of larger y are dropped (min-p); infinity: none
  int row, greedy, topK, previous;
  int mask;      // its first word; -1: none
  int edits, numEdits; // the first and their number; one free place follows
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
  const Row* rows;    // [rows], a block each
  Edit* edits;
  const u32* masks;
  const int* previous; // tokens that the previous step sampled
  int* sampled;        // sampled tokens, for the next step
  Result* results;
  int vocab;
};

static_assert(sizeof(Row) == 88 && sizeof(Result) == 176, "sample.go says the same");
