// A stand-in for NVIDIA's driver, for tests of what goes wrong: a GPU of compute capability 8.0 whose memory is the host's and whose
// kernels do nothing. The environment says how it is broken:
//
//	FAKE_VERSION  the CUDA version it speaks, such as 12000; default 13000
//	FAKE_GPUS     how many GPUs there are; default 1
//	FAKE_MB       the GPU's memory in MiB; default 1024
//	FAKE_USED     MiB of it that another process holds
//	FAKE_FAULT    the launch, counted from 1, that faults; every call after it fails
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK, INVALID = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, LAUNCH_FAILED = 719 };
typedef uint64_t ptr;

static int64_t setting(const char *name, int64_t otherwise) {
  const char *s = getenv(name);
  return s && *s ? atoll(s) : otherwise;
}

static int lost;         // a kernel has faulted
static int64_t launches; // so far
static int64_t held;     // bytes

static int work(void) { return lost ? LAUNCH_FAILED : OK; }

int cuInit(unsigned flags) { return setting("FAKE_GPUS", 1) ? OK : NO_DEVICE; }
int cuDriverGetVersion(int *v) { *v = (int)setting("FAKE_VERSION", 13000); return OK; }
int cuGetErrorName(int code, const char **s) {
  *s = code == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : code == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_INVALID_VALUE";
  return OK;
}
int cuGetErrorString(int code, const char **s) {
  *s = code == LAUNCH_FAILED ? "unspecified launch failure" : code == OUT_OF_MEMORY ? "out of memory" : code == NO_DEVICE ? "no CUDA-capable device is detected" : "invalid argument";
  return OK;
}
int cuDeviceGetCount(int *n) { *n = (int)setting("FAKE_GPUS", 1); return OK; }
int cuDeviceGet(int *d, int i) { *d = i; return OK; }
int cuDeviceGetName(char *s, int n, int d) { strncpy(s, "Stand-in", n); return OK; }
int cuDeviceTotalMem_v2(uint64_t *n, int d) { *n = setting("FAKE_MB", 1024) << 20; return OK; }
int cuDeviceGetAttribute(int *v, int attribute, int d) {
  *v = attribute == 16 ? 4 : attribute == 75 ? 8 : attribute == 97 ? 99 << 10 : 0; // multiprocessors, compute capability, shared memory
  return OK;
}
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = &lost; return OK; }
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
  int64_t *block = n > free ? NULL : malloc(n + 256);
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
int cuMemcpyDtoHAsync_v2(void *to, ptr from, uint64_t n, void *s) { return copy(to, (void *)from, n); }
int cuMemcpyDtoDAsync_v2(ptr to, ptr from, uint64_t n, void *s) { return copy((void *)to, (void *)from, n); }
int cuMemsetD8Async(ptr to, unsigned char b, uint64_t n, void *s) {
  if (!lost) memset((void *)to, b, n);
  return work();
}

int cuStreamCreate(void **s, unsigned flags) { *s = &lost; return work(); }
int cuStreamDestroy_v2(void *s) { return work(); }
int cuStreamSynchronize(void *s) { return work(); }
int cuStreamWaitEvent(void *s, void *e, unsigned flags) { return work(); }
int cuStreamBeginCapture_v2(void *s, int mode) { return work(); }
int cuStreamEndCapture(void *s, void **g) { *g = &lost; return work(); }
int cuEventCreate(void **e, unsigned flags) { *e = &lost; return work(); }
int cuEventDestroy_v2(void *e) { return work(); }
int cuEventRecord(void *e, void *s) { return work(); }
int cuEventQuery(void *e) { return work(); }
int cuEventSynchronize(void *e) { return work(); }
int cuEventElapsedTime(float *ms, void *a, void *b) { *ms = 1; return work(); }

int cuModuleLoadDataEx(void **m, const void *text, unsigned n, void *names, void *values) { *m = &lost; return work(); }
int cuModuleUnload(void *m) { return work(); }
int cuModuleGetFunction(void **f, void *m, const char *name) { *f = &lost; return work(); }
int cuFuncSetAttribute(void *f, int attribute, int v) { return work(); }
int cuFuncGetAttribute(int *v, int attribute, void *f) { *v = 0; return work(); }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *f, int threads, uint64_t shared) { *n = 1; return work(); }
int cuOccupancyMaxActiveClusters(int *n, void *f, const void *config) { *n = 1; return work(); }

// A fault shows at a later call than the launch's own, as on a GPU.
int cuLaunchKernelEx(const void *config, void *f, void **params, void **extra) {
  int code = work();
  if (++launches == setting("FAKE_FAULT", -1)) lost = 1;
  return code;
}
int cuGraphInstantiateWithFlags(void **x, void *g, uint64_t flags) { *x = &lost; return work(); }
int cuGraphLaunch(void *x, void *s) { return cuLaunchKernelEx(0, 0, 0, 0); }
int cuGraphExecDestroy(void *x) { return work(); }
int cuGraphDestroy(void *g) { return work(); }
int cuTensorMapEncodeTiled() { return work(); }
