// Parameters of the kernels for LoRA adapters; lora.go mirrors them.
#pragma once
#include "../cuda.h"

enum { TILE_ROWS = 16, MAX_TARGETS = 8, MAX_RANK = 512, MAX_SPLITS = 16, DELTA_RANK = 64 };

// LoraSlot is one adapter's numbers for one matrix W [out, in]; for a table of embeddings a has a row for each token.
struct LoraSlot {
  const void* a;        // [rank, in]; of a table [vocab, rank]
  const void* b;        // [passes of 16 ranks][out][16], see bAt; of a table [hidden, rank]
  const float* columns; // [out] factors of the base's results; null: 1
  const float* bias;    // [out]; null: 0
  const void* rows;     // [count, in] that take the places of rows of W; null: none
  const int* indices;   // [count] which of them; null: all
  int rank, count;      // rank is a multiple of 8 where W is no table: the file's, with zeros
  float scale;
  int reserved; // 0
};

// bAt is where a number of B lies, of so many rows. Behind the last rank of a pass are zeros, and so many passes are read as an adapter has ranks.
DEVICE long bAt(int out, int row, int rank) { return ((long)(rank / 16) * out + row) * 16 + rank % 16; }

struct LoraParams {
  const int* tiles;    // [n × 4]: slot, first of its rows in rows, how many, which plane is the slot's
  const int* rows;     // rows of x and y, tile by tile
  const float* scales; // of each, what the adapter's changes are multiplied by
  const void* x;       // [R, in]
  float* h;            // [splits, tiles × TILE_ROWS, targets, rank]: A x, each split of the columns of A by itself
  const LoraSlot* slots[MAX_TARGETS];
  void* y[MAX_TARGETS]; // [R, out]
  int out[MAX_TARGETS];
  int in, targets, rank; // rank is the largest
  int splits;            // of the columns of A, blocks that compute them apart: MAX_SPLITS at most
};

// TilesParams is those of lora_tiles_mma.
struct TilesParams {
  LoraParams lora;
  void* h;      // [targets][passes][room][16 rows][16] bf16
  int* arrived; // as in PlanesParams
  int passes, room;
};

// PlanesParams is those of lora_planes_mma.
struct PlanesParams {
  LoraParams lora;
  void* planes; // [targets / sides, steps, rows, 64] bf16: h times scales, in units of 16 ranks, of the sides by turns
  int* arrived; // [tiles × targets × passes] blocks that have their part of h; zero between launches
  int steps, passes, rows, sides;
};
