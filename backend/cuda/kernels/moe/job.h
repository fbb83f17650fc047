// The share of a block in a product of experts.
#pragma once
#include "../cuda.h"

// Job is what a block has to do: slots of an expert, and which run of tiles. Blocks of one expert's jobs follow each other tile by tile,
// so that what reads the same weights runs at the same time.
struct Job {
  int expert, slot, count, tiles; // tiles: which run of them
  // find takes block number b of a launch with so many runs of tiles a job; it reports whether there is work for it.
  template <typename P> DEVICE bool find(const P& p, int b, int runs) {
    int any = b / runs;
    Vec16 noted = p.jobs[any];
    if (any >= *p.total) return false;
    read(noted, b, runs, p.each);
    return true;
  }
  // read is find with what is noted of the job already at hand. An expert's jobs are of one size, so that they take blocks equally long.
  DEVICE void read(const Vec16& noted, int b, int runs, int most) {
    expert = noted.x[0];
    int in = b - (int)noted.x[1] * runs, end = noted.x[3], slots = end - (int)noted.x[2], jobs = ceilDiv(slots, most), each = ceilDiv(slots, jobs);
    tiles = in / jobs;
    slot = noted.x[2] + in % jobs * each;
    count = mini(each, end - slot);
  }
};
