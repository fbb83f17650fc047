package driver

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Grid is the shape of a launch: blocks, threads per block, and dynamic shared memory of a block in bytes.
type Grid struct {
	X, Y, Z int // blocks; 0 means 1
	Threads int
	Shared  int
	Cluster int // blocks along X of a cluster, which share TMA multicast loads; 0 means no clusters (sm_90)
}

const maxParams = 2048 // bytes of kernel parameters; CUDA's limit is 4096

// launch is what one cuLaunchKernelEx reads, kept per stream so that a launch allocates nothing and its addresses are
// always the heap's. The layout of config is CUlaunchConfig's.
type launch struct {
	config struct {
		grid, block [3]uint32
		shared      uint32
		stream      uintptr
		attrs       uintptr
		numAttrs    uint32
	}
	attrs [2]launchAttr
	// list holds the address of the kernel's one parameter. (The "extra" buffer would do without, but there a parameter
	// aligned to 64 bytes must be placed by hand where the compiler put it.)
	list  [1]uintptr
	param [maxParams]byte
	args  [4]uintptr
}

// launchAttr is CUlaunchAttribute: an id and a union of 64 bytes.
type launchAttr struct {
	id    int32
	_     int32
	value [16]uint32
}

// Ids of CUlaunchAttributeID.
const (
	attrCluster = 4 // CLUSTER_DIMENSION
	attrOverlap = 6 // PROGRAMMATIC_STREAM_SERIALIZATION
)

// ClustersAtOnce is how many clusters of so many blocks of a grid the GPU runs at once: fewer than its multiprocessors would allow, as a
// cluster's must be in one GPC.
func (k *Kernel) ClustersAtOnce(g Grid) (int, error) {
	if err := k.wait(); err != nil {
		return 0, err
	}
	l, n := &launch{attrs: [2]launchAttr{{id: attrCluster, value: [16]uint32{uint32(g.Cluster), 1, 1}}}}, new(int32)
	c := &l.config
	c.grid, c.block, c.shared = [3]uint32{uint32(g.X), 1, 1}, [3]uint32{uint32(g.Threads), 1, 1}, uint32(g.Shared)
	c.attrs, c.numAttrs = uintptr(unsafe.Pointer(&l.attrs)), 1
	err := k.ctx.driver.call("querying how many clusters of the kernel "+k.Name+" run at once", cuOccupancyMaxClusters,
		uintptr(unsafe.Pointer(n)), k.handle, uintptr(unsafe.Pointer(c)))
	runtime.KeepAlive(l)
	return int(*n), err
}

// Launch puts a kernel on the stream. params mirrors the kernel's one struct parameter field by field: pointers as Ptr,
// the rest as the Go number of the same size; both languages have the same layout for these.
func Launch[T any](s *Stream, k *Kernel, g Grid, params *T) error {
	return s.launchBytes(k, g, unsafe.Slice((*byte)(unsafe.Pointer(params)), unsafe.Sizeof(*params)))
}

func (s *Stream) launchBytes(k *Kernel, g Grid, params []byte) error {
	if len(params) > maxParams {
		return fmt.Errorf("cuda: the kernel %s takes %d bytes of parameters; the limit is %d", k.Name, len(params), maxParams)
	}
	if err := k.wait(); err != nil {
		return err
	}
	l := s.launch
	c := &l.config
	c.grid = [3]uint32{uint32(max(g.X, 1)), uint32(max(g.Y, 1)), uint32(max(g.Z, 1))}
	c.block = [3]uint32{uint32(g.Threads), 1, 1}
	c.shared, c.stream, c.attrs, c.numAttrs = uint32(g.Shared), s.handle, uintptr(unsafe.Pointer(&l.attrs)), 0
	if s.Overlap {
		l.attrs[c.numAttrs] = launchAttr{id: attrOverlap, value: [16]uint32{1}}
		c.numAttrs++
	}
	if g.Cluster > 1 {
		l.attrs[c.numAttrs] = launchAttr{id: attrCluster, value: [16]uint32{uint32(g.Cluster), 1, 1}}
		c.numAttrs++
	}
	copy(l.param[:], params)
	l.list[0] = uintptr(unsafe.Pointer(&l.param))
	l.args = [4]uintptr{uintptr(unsafe.Pointer(c)), k.handle, uintptr(unsafe.Pointer(&l.list)), 0}
	if code := syscall(s.ctx.driver.fn[cuLaunchKernelEx], l.args[:]...); code != 0 {
		doing := fmt.Sprintf("launching the kernel %s on %d×%d×%d blocks of %d threads with %d bytes of shared memory",
			k.Name, c.grid[0], c.grid[1], c.grid[2], g.Threads, g.Shared)
		return s.ctx.driver.newError(doing, cuLaunchKernelEx, code)
	}
	return nil
}
