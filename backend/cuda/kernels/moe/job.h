// The work item of a block of a grouped GEMM.
#pragma once
#include "../cuda.h"

// Job is a block's work item: slots of an expert, and a run of tiles. Blocks of one expert's jobs are consecutive tile by tile, so that blocks that read
// the same weights run at the same time.
struct Job {
  int expert, slot, count, tiles; // tiles: the index of the run
  // find finds the work of block b of a launch with `runs` runs of tiles a job; it returns whether there is any.
  template <typename P> DEVICE bool find(const P& p, int b, int runs) {
    int any = b / runs;
    Vec16 noted = p.jobs[any];
    if (any >= *p.total) return false;
    read(noted, b, runs, p.each);
    return true;
  }
  // read is find with the job's descriptor already loaded. An expert's jobs are of equal size, so that blocks take equally long.
  DEVICE void read(const Vec16& noted, int b, int runs, int most) {
    expert = noted.x[0];
    int in = b - (int)noted.x[1] * runs, end = noted.x[3], slots = end - (int)noted.x[2], jobs = ceilDiv(slots, most), each = ceilDiv(slots, jobs);
    tiles = in / jobs;
    slot = noted.x[2] + in % jobs * each;
    count = mini(each, end - slot);
  }
};
