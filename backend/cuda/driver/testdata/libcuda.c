// A stand-in for NVIDIA's driver, for tests without a GPU: one whose memory is the host's and whose kernels do nothing. It refuses kernels that
// are not in the PTX, and launches of shapes that a GPU refuses. The environment says what it is like and how it is broken:
//
//	FAKE_VERSION  the CUDA version it speaks, such as 12000; default 13000
//	FAKE_GPUS     how many GPUs there are; default 1
//	FAKE_ARCH     their compute capability; default 80
//	FAKE_SMS      their multiprocessors; default 4
//	FAKE_MB       a GPU's memory in MiB; default 1024
//	FAKE_USED     MiB of it that another process holds
//	FAKE_FAULT    the launch, counted from 1, that faults; every call after it fails
//	FAKE_WAIT     a file; the first kernel is assembled when there is one
//	FAKE_REFUSE   a word; kernels whose text has it are not assembled
//	FAKE_DOWNLOADS a file; each copy from the device to the host adds a line: its bytes
//	FAKE_LOG      a file; each launch adds a line: the kernel, its grid, the threads of a block, the blocks of a cluster
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK, INVALID = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, NOT_FOUND = 500, LAUNCH_FAILED = 719 };
enum { CLOCK = 13, MULTIPROCESSORS = 16, MEMORY_CLOCK = 36, MEMORY_BUS = 37, MAJOR = 75, MINOR = 76, SHARED_OPTIN = 97 }; // of CUdevice_attribute
enum { SHARED = 48 << 10, MOST_SHARED = 227 << 10 };                      // bytes of shared memory a block has unasked, and at most
typedef uint64_t ptr;

static int64_t setting(const char *name, int64_t otherwise) {
  const char *s = getenv(name);
  return s && *s ? atoll(s) : otherwise;
}

static _Atomic int lost;         // a kernel has faulted
static _Atomic int64_t launches; // so far
static _Atomic int64_t held;     // bytes
static _Atomic int libraries;    // so far
static _Atomic int64_t graphs;   // that are instantiated

static int work(void) { return lost ? LAUNCH_FAILED : OK; }

int cuInit(unsigned flags) { return setting("FAKE_GPUS", 1) ? OK : NO_DEVICE; }
int cuDriverGetVersion(int *v) { *v = (int)setting("FAKE_VERSION", 13000); return OK; }
int cuGetErrorName(int code, const char **s) {
  *s = code == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : code == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : code == NOT_FOUND ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR_INVALID_VALUE";
  return OK;
}
int cuGetErrorString(int code, const char **s) {
  *s = code == LAUNCH_FAILED ? "unspecified launch failure" : code == OUT_OF_MEMORY ? "out of memory" : code == NO_DEVICE ? "no CUDA-capable device is detected" : code == NOT_FOUND ? "named symbol not found" : "invalid argument";
  return OK;
}
int cuDeviceGetCount(int *n) { *n = (int)setting("FAKE_GPUS", 1); return OK; }
int cuDeviceGet(int *d, int i) { *d = i; return OK; }
int cuDeviceGetName(char *s, int n, int d) { strncpy(s, "Stand-in", n); return OK; }
int cuDeviceTotalMem_v2(uint64_t *n, int d) { *n = setting("FAKE_MB", 1024) << 20; return OK; }
int cuDeviceGetAttribute(int *v, int attribute, int d) {
  int arch = (int)setting("FAKE_ARCH", 80);
  switch (attribute) {
  case MULTIPROCESSORS: *v = (int)setting("FAKE_SMS", 4); break;
  case CLOCK: *v = 1000000; break;
  case MEMORY_CLOCK: *v = 2000000; break;
  case MEMORY_BUS: *v = 1024; break;
  case MAJOR: *v = arch / 10; break;
  case MINOR: *v = arch % 10; break;
  case SHARED_OPTIN: *v = MOST_SHARED; break;
  default: *v = 0;
  }
  return OK;
}
int cuDeviceGetUuid_v2(unsigned char *id, int d) { memset(id, 0, 16); id[0] = (unsigned char)d; return OK; }
int cuDeviceCanAccessPeer(int *can, int d, int peer) { *can = d != peer; return OK; }
int cuCtxEnablePeerAccess(void *peer, unsigned flags) { return work(); }
typedef struct { ptr memory, unused[7]; } handle; // CUipcMemHandle; it stands for memory of this process alone
int cuIpcGetMemHandle(handle *h, ptr p) { *h = (handle){.memory = p}; return work(); }
int cuIpcOpenMemHandle_v2(ptr *p, handle h, unsigned flags) { *p = h.memory; return flags == 1 ? work() : INVALID; }
int cuIpcCloseMemHandle(ptr p) { return work(); }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = (void *)&lost; return OK; }
int cuDevicePrimaryCtxRelease_v2(int d) { return OK; }
int cuCtxSetCurrent(void *c) { return OK; }
int cuCtxSynchronize(void) { return work(); }

int cuMemGetInfo_v2(uint64_t *free, uint64_t *total) {
  *total = setting("FAKE_MB", 1024) << 20;
  *free = *total - (setting("FAKE_USED", 0) << 20) - held;
  return work();
}
int cuMemAlloc_v2(ptr *p, uint64_t n) {
  uint64_t free, total;
  cuMemGetInfo_v2(&free, &total);
  if (lost) return LAUNCH_FAILED;
  int64_t *block = n > free ? NULL : calloc(1, n + 256);
  if (!block) return OUT_OF_MEMORY;
  *block = n;
  held += n;
  *p = (ptr)block + 256;
  return OK;
}
int cuMemFree_v2(ptr p) {
  if (!p) return OK;
  int64_t *block = (int64_t *)(p - 256);
  held -= *block;
  free(block);
  return work();
}
int cuMemHostAlloc(void **p, uint64_t n, unsigned flags) { *p = malloc(n); return *p ? work() : OUT_OF_MEMORY; }
int cuMemFreeHost(void *p) { free(p); return work(); }
static int copy(void *to, const void *from, uint64_t n) {
  if (!lost) memmove(to, from, n);
  return work();
}
int cuMemcpyAsync(ptr to, ptr from, uint64_t n, void *s) { return copy((void *)to, (void *)from, n); }
int cuMemcpyHtoDAsync_v2(ptr to, const void *from, uint64_t n, void *s) { return copy((void *)to, from, n); }
int cuMemcpyDtoHAsync_v2(void *to, ptr from, uint64_t n, void *s) {
  const char *file = getenv("FAKE_DOWNLOADS");
  FILE *log = file && *file ? fopen(file, "a") : NULL;
  if (log) {
    fprintf(log, "%llu\n", (unsigned long long)n);
    fclose(log);
  }
  return copy(to, (void *)from, n);
}
int cuMemcpyDtoDAsync_v2(ptr to, ptr from, uint64_t n, void *s) { return copy((void *)to, (void *)from, n); }
int cuMemsetD8Async(ptr to, unsigned char b, uint64_t n, void *s) {
  if (!lost) memset((void *)to, b, n);
  return work();
}

int cuStreamCreate(void **s, unsigned flags) { *s = (void *)&lost; return work(); }
int cuStreamDestroy_v2(void *s) { return work(); }
int cuStreamSynchronize(void *s) { return work(); }
int cuStreamWaitEvent(void *s, void *e, unsigned flags) { return work(); }
int cuStreamBeginCapture_v2(void *s, int mode) { return work(); }
int cuStreamEndCapture(void *s, void **g) { *g = (void *)&lost; return work(); }
int cuEventCreate(void **e, unsigned flags) { *e = (void *)&lost; return work(); }
int cuEventDestroy_v2(void *e) { return work(); }
int cuEventRecord(void *e, void *s) { return work(); }
int cuEventQuery(void *e) { return work(); }
int cuEventSynchronize(void *e) { return work(); }
int cuEventElapsedTime(float *ms, void *a, void *b) { *ms = 1; return work(); }

// A library is one kernel or more, each with the threads that its text allows a block and the dynamic shared memory that was asked for.
typedef struct kernel {
  struct kernel *next;
  char name[256];
  unsigned threads, shared;
} kernel;
typedef struct {
  kernel *first;
  int refused; // that it cannot be assembled shows when a kernel is asked for
} library;

int cuLibraryLoadData(library **l, const char *text, void *names, void *values, unsigned n, void *options, void *optionValues, unsigned m) {
  static const char entry[] = ".visible .entry ";
  if (lost) return LAUNCH_FAILED;
  const char *file = getenv("FAKE_WAIT");
  if (!libraries++ && file && *file)
    while (access(file, F_OK)) usleep(1000);
  *l = calloc(1, sizeof **l);
  const char *word = getenv("FAKE_REFUSE");
  (*l)->refused = word && *word && strstr(text, word);
  while ((text = strstr(text, entry))) {
    text += sizeof entry - 1;
    kernel *k = calloc(1, sizeof *k);
    *k = (kernel){.next = (*l)->first, .threads = 1024, .shared = SHARED};
    sscanf(text, "%255[^( ]", k->name);
    const char *body = strchr(text, '{'), *most = strstr(text, ".maxntid ");
    if (most && most < body) k->threads = atoi(most + 9);
    (*l)->first = k;
  }
  return OK;
}
int cuLibraryUnload(library *l) {
  for (kernel *k = l->first, *next; k; k = next) next = k->next, free(k);
  free(l);
  return work();
}
int cuLibraryGetKernel(kernel **k, library *l, const char *name) {
  for (*k = l->first; *k && strcmp((*k)->name, name); *k = (*k)->next) {
  }
  return l->refused ? INVALID : *k ? work() : NOT_FOUND;
}
int cuKernelGetFunction(kernel **f, kernel *k) { *f = k; return work(); }
int cuFuncSetAttribute(kernel *f, int attribute, int v) {
  if (v > MOST_SHARED) return INVALID;
  f->shared = v;
  return work();
}
int cuFuncGetAttribute(int *v, int attribute, kernel *f) { *v = 0; return work(); }

enum { CLUSTER = 4 }; // of CUlaunchAttributeID
typedef struct { int id, unused; unsigned value[16]; } attribute; // CUlaunchAttribute
typedef struct {
  unsigned grid[3], block[3], shared;
  void *stream;
  const attribute *attributes;
  unsigned count;
} config; // CUlaunchConfig

// clusterOf is how many blocks along x share what they fetch; 1 where the launch does not say.
static unsigned clusterOf(const config *c) {
  for (unsigned i = 0; i < c->count; i++)
    if (c->attributes[i].id == CLUSTER) return c->attributes[i].value[0];
  return 1;
}
int cuOccupancyMaxActiveClusters(int *n, kernel *f, const config *c) { *n = (int)setting("FAKE_SMS", 4) / clusterOf(c); return work(); }

// A fault shows at a later call than the launch's own, as on a GPU.
static int launched(void) {
  int code = work();
  if (++launches == setting("FAKE_FAULT", -1)) lost = 1;
  return code;
}
int cuLaunchKernelEx(const config *c, kernel *f, void **params, void **extra) {
  unsigned threads = c->block[0] * c->block[1] * c->block[2];
  if (!c->grid[0] || !c->grid[1] || !c->grid[2] || c->grid[0] > INT32_MAX || c->grid[1] > 65535 || c->grid[2] > 65535) return INVALID;
  if (!threads || threads > f->threads || c->shared > f->shared || c->grid[0] % clusterOf(c)) return INVALID;
  const char *file = getenv("FAKE_LOG");
  FILE *log = file && *file ? fopen(file, "a") : NULL;
  if (log) {
    fprintf(log, "%s %ux%ux%u %u %u\n", f->name, c->grid[0], c->grid[1], c->grid[2], threads, clusterOf(c));
    fclose(log);
  }
  return launched();
}
int cuGraphInstantiateWithFlags(void **x, void *g, uint64_t flags) { *x = (void *)&lost; graphs++; return work(); }
int64_t standinGraphs(void) { return graphs; } // for that of NCCL
int cuGraphLaunch(void *x, void *s) { return launched(); }
int cuGraphExecDestroy(void *x) { graphs--; return work(); }
int cuGraphDestroy(void *g) { return work(); }

// A matrix of 16-bit numbers in boxes whose rows are 128 bytes at most, as the pattern of shared memory has them.
int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, ptr base, const uint64_t *sizes, const uint64_t *strides, const unsigned *box) {
  if (base % 16 || box[0] > 64) return INVALID;
  for (unsigned i = 0; i < rank; i++)
    if (!sizes[i] || sizes[i] >> 32 || !box[i] || box[i] > 256 || (i && strides[i - 1] % 16)) return INVALID;
  return work();
}
