// A stand-in for NCCL beside that for NVIDIA's driver (../../driver/testdata/libcuda.c), for tests without GPUs: it moves no numbers, and waits where NCCL does.
// The first call of each kind waits for all ranks, which NCCL connects then. The last rank of the process that ends a group waits until there is no CUDA graph.
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK, INVALID = 4, MOST = 8 };
enum { REDUCE, GATHER, MESSAGE, KINDS };

typedef struct group {
  struct group *next;
  char id[128];
  int ranks, joined, ended, aborted, came[KINDS];
} group;
typedef struct {
  group *g;
  int rank, connected[KINDS];
} comm;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static group *groups;
static char made;

int ncclGetVersion(int *v) { *v = 22703; return OK; }
const char *ncclGetErrorString(int code) { return code == INVALID ? "invalid argument" : "an error of the stand-in"; }
const char *ncclGetLastError(void *c) { return ""; }
int ncclGetUniqueId(char *id) {
  memset(id, 0, 128);
  id[0] = ++made;
  return OK;
}

typedef struct { char b[128]; } number;
int ncclCommInitRank(comm **to, int ranks, number id, int rank) {
  pthread_mutex_lock(&lock);
  group *g = groups;
  while (g && memcmp(g->id, id.b, 128)) g = g->next;
  if (!g) {
    g = calloc(1, sizeof *g);
    memcpy(g->id, id.b, 128);
    g->ranks = ranks, g->next = groups, groups = g;
  }
  *to = calloc(1, sizeof **to);
  (*to)->g = g, (*to)->rank = rank;
  g->joined++;
  pthread_cond_broadcast(&changed);
  while (g->joined < g->ranks) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  return OK;
}

static int call(comm *c, int kind, int all) {
  pthread_mutex_lock(&lock);
  int aborted = c->g->aborted;
  if (!c->connected[kind]) {
    c->connected[kind] = 1;
    c->g->came[kind]++;
    pthread_cond_broadcast(&changed);
    while (c->g->came[kind] < all && !(aborted = c->g->aborted)) pthread_cond_wait(&changed, &lock);
  }
  pthread_mutex_unlock(&lock);
  return aborted ? INVALID : OK;
}
int ncclAllReduce(void *x, void *y, size_t n, int type, int op, comm *c, void *stream) { return call(c, REDUCE, c->g->ranks); }
int ncclAllGather(void *x, void *y, size_t n, int type, comm *c, void *stream) { return call(c, GATHER, c->g->ranks); }
int ncclSend(void *x, size_t n, int type, int peer, comm *c, void *stream) { return peer == c->rank ? INVALID : call(c, MESSAGE, 2); }
int ncclRecv(void *y, size_t n, int type, int peer, comm *c, void *stream) { return peer == c->rank ? INVALID : call(c, MESSAGE, 2); }

static int64_t graphs(void) { // that the driver has
  int64_t (*count)(void) = (int64_t (*)(void))dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "standinGraphs");
  return count();
}
static int end(comm *c) {
  pthread_mutex_lock(&lock);
  int last = ++c->g->ended == c->g->ranks;
  pthread_mutex_unlock(&lock);
  while (last && graphs() > 0) {
    struct timespec some = {0, 1000000};
    nanosleep(&some, NULL);
  }
  return OK;
}
int ncclCommDestroy(comm *c) { return end(c); }
int ncclCommAbort(comm *c) {
  pthread_mutex_lock(&lock);
  c->g->aborted = 1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return end(c);
}
