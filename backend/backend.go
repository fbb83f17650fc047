// Package backend is what a device must offer to run a graph: memory, kernels for the graph's nodes, and a way to run
// a list of launches on a batch. The reference backend (backend/ref) defines what each op means; the others are
// tested against it.
package backend

import (
	"errors"
	"slices"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Device is one piece of hardware with its memory. A device is used by one goroutine at a time.
type Device interface {
	// Info describes the device for people and for planning.
	Info() Info
	// Kernels lists the ways to compute a node, the one to prefer first; empty when the device cannot.
	Kernels(n *graph.Node) []Kernel
	// Alloc gets n bytes of zeroed device memory; what names their use in an error. Free gives them back.
	Alloc(n int64, what string) (Buffer, error)
	Free(Buffer)
	// Place makes a weight resident. Its matrices, one or those of a stack, are borrowed until Close: on a CPU they are usually used
	// where they lie. Where w is of another format than they are, which are in floats then, the device quantises them. A weight with Slots
	// has none; it is of an AdapterLoader, which fills it later.
	Place(w *graph.Weight, matrices []quant.Tensor) (Weight, error)
	// Run computes one step. It returns when the step is done, or, on a device that runs by itself, when it is
	// queued: Read waits for it.
	Run(launches []Launch, b *Batch) error
	// Read copies rows [from, from+n) of a value as F32 into dst, after all work given before.
	Read(dst []float32, v *graph.Value, b Buffer, from, n int) error
	// Copy copies bytes of device memory, in order with the steps: pages of a cache that two sequences part at.
	Copy(dst, src Buffer) error
	// Close frees all that the device holds.
	Close() error
}

// ErrLost is in the errors of a device that will do nothing more, whatever is asked of it.
var ErrLost = errors.New("the device is lost")

// Info describes a device.
type Info struct {
	Name    string     // "cpu", "ref", "cuda:0"
	Detail  string     // "Zen 5, avx512, 2 threads"
	Memory  int64      // bytes in all
	Threads int        // that compute at once; 1 for a GPU, whose parallelism is its own business
	Act     graph.Type // of activations that it is fastest with
	Q8      bool       // multiplies weights in block formats with Q8 inputs in integers, and faster so
	BF16    bool       // multiplies BF16 weights faster when inputs are rounded to BF16
	Kernels string     // the architecture that its kernels are for, where they fuse more than every device does: "sm_90"
	Replays bool       // runs steps that only decode from a recording, without a call for each launch

	Stated Peaks // by the device's clocks and widths, not measured; all 0: it states none

	RowTiles []int // row counts that products are computed for, ascending: others are rounded up, beyond the last to multiples of it; nil: any
}

// Viewer is a device whose memory the host reads as its own.
type Viewer interface {
	// View is rows [0, n) of an F32 value, where they lie, until the next step. They may be written over.
	View(v *graph.Value, b Buffer, n int) ([]float32, error)
}

// NormFuser is a device whose products compute norms themselves in steps of few rows.
type NormFuser interface {
	// NormRows is up to how many rows a node does: see pass.Kernels.
	NormRows(n *graph.Node) int
}

// Refuser is a device that says why it cannot compute something.
type Refuser interface {
	// Refusal is why there are no Kernels for a node, and what to do if anything can be done but taking another device.
	Refusal(n *graph.Node) string
}

// MemoryInfo is a device that knows how much memory it has.
type MemoryInfo interface {
	// Memory is how many bytes can be allocated now, and how many there are in all.
	Memory() (free, total int64, err error)
}

// ThreadLender is a device that computes with the processor's threads, which wait awake between steps for the next.
type ThreadLender interface {
	// RunThreads has each of the device's Info.Threads threads, numbered from 0, do job, and returns when all have.
	RunThreads(job func(thread int))
}

// Buffer is a piece of a device's memory.
type Buffer struct {
	Mem any   // the device's own handle
	Off int64 // bytes into it
	Len int64 // bytes
}

// Slice is the part [off, off+n) of a buffer.
func (b Buffer) Slice(off, n int64) Buffer { return Buffer{Mem: b.Mem, Off: b.Off + off, Len: n} }

// Weight is a resident weight, in whatever layout the device wants.
type Weight interface{ Bytes() int64 }

// Writer is a device whose activations the host can write.
type Writer interface {
	// Write replaces rows [0, n) of a value by F32 numbers, rounded to its type, after all work given before.
	Write(v *graph.Value, b Buffer, rows []float32, n int) error
}

// Warmer is a device that puts work off to the first steps so that they come soon.
type Warmer interface {
	// Warm does that work now: steps take as long from the first on as they will later.
	Warm()
}

// Prefaulter is a device whose memory is the system's, which looks for a place for it when it is first written to.
type Prefaulter interface {
	// Prefault has the system find a place for a buffer now. What is in it stays as it is; steps may write to it meanwhile.
	Prefault(Buffer)
}

// DeferredUpload is a weight that is still read from the tensor it was placed from when its kernel is bound.
type DeferredUpload interface {
	// WhenCopied has release called with each part of the tensor that the device has its own copy of from then on, by several
	// goroutines at once.
	WhenCopied(release func(part []byte))
}

// Kernel is one way to compute a node.
type Kernel interface {
	// Name says format and method: "linear q8_0 avx512".
	Name() string
	// Scratch is how many bytes of memory the kernel needs beside inputs and outputs while it runs.
	Scratch(n *graph.Node, lim Limits) int64
	// Bind fixes where everything is and gives the launch that a Program keeps.
	Bind(n *graph.Node, a Args) (Launch, error)
}

// Args is where a node's inputs, outputs and weights are. A cache, as input or output, is the buffer of its pages.
type Args struct {
	In, Out []Buffer
	Weights []Weight
	Scratch Buffer
	Limits  Limits
}

// Launch is one entry of a Program, bound to its memory; the device that made it knows how to run it.
type Launch interface {
	// String is the launch as a line of the program's text.
	String() string
}

// Limits bounds a step. Buffers are sized by them once, so that a step allocates nothing.
type Limits struct {
	Tokens    int // rows of a step
	Seqs      int // sequences of a step
	Logits    int // rows whose logits are wanted
	Pages     int // pages of a cache, of the group that keeps most rows
	PageSize  int // tokens in a page
	SeqPages  int // pages of one sequence, so its longest context is SeqPages × PageSize
	Adapters  int `json:",omitempty"` // slots of adapters
	SwapPages int // likewise of host memory, for sequences that wait; more than 0 only on a Swapper
	HostPages int `json:",omitempty"` // likewise, for what has left the cache; they are numbered behind the SwapPages
	// HostMapped has SwapPages and HostPages lie where other processes of the host can map them, on a HostSharer.
	HostMapped bool `json:",omitempty"`
	// Groups is the pages of each of the graph's cache groups. Empty: all caches keep all rows, and share one page table.
	Groups []GroupLimits `json:",omitempty"`
	// Ranks is how many devices have sequences of their own, each with the pages of its own: of every group's pages the first part is the first device's, and so on. 0: pages are of all.
	Ranks int `json:",omitempty"`
	// StatePages is how many pages of the group that keeps all tokens a state takes that is kept there: 0: as many as its bytes; below 0: it is not kept there.
	StatePages int `json:",omitempty"`
}

// GroupLimits is the pages of a cache group, on the device and in host memory, and its graph.CacheGroup's Window and Recurrent.
type GroupLimits struct {
	Window, Pages, SwapPages int
	HostPages                int  `json:",omitempty"`
	Recurrent                bool `json:",omitempty"` // a page is the state of a sequence
}

// GroupPages is the pages of a cache group.
func (l Limits) GroupPages(group int) int {
	if len(l.Groups) == 0 {
		return l.Pages
	}
	return l.Groups[group].Pages
}

// GroupSwapPages is the pages of host memory of a cache group.
func (l Limits) GroupSwapPages(group int) int {
	if len(l.Groups) == 0 {
		return l.SwapPages
	}
	return l.Groups[group].SwapPages
}

// Divide makes pages those of so many devices together, each of which has a part of every page as large as the page was. How many pages there are is to be said after it.
func (l *Limits) Divide(devices int) {
	tokens := l.SeqPages * l.PageSize
	l.PageSize *= devices
	l.SeqPages = (tokens + l.PageSize - 1) / l.PageSize
}

// GroupHostPages is the pages of host memory of a cache group for what has left the cache.
func (l Limits) GroupHostPages(group int) int {
	if len(l.Groups) == 0 {
		return l.HostPages
	}
	return l.Groups[group].HostPages
}

// Times makes the pages, of which limits were set as of one device, those of so many devices with sequences of their own, each with swap space of its own. Nothing that has left the cache is kept.
func (l *Limits) Times(ranks int) {
	l.Ranks, l.Pages, l.SwapPages, l.HostPages = ranks, l.Pages*ranks, l.SwapPages*ranks, 0
	l.Groups = slices.Clone(l.Groups)
	for i := range l.Groups {
		g := &l.Groups[i]
		g.Pages, g.SwapPages, g.HostPages = g.Pages*ranks, g.SwapPages*ranks, 0
	}
}

// OfRank is the limits of one of the devices that have sequences of their own.
func (l Limits) OfRank() Limits {
	if l.Ranks > 1 {
		l.Groups = slices.Clone(l.Groups)
		for i := range l.Groups {
			l.Groups[i].Pages /= l.Ranks
			l.Groups[i].SwapPages /= l.Ranks
		}
		l.Pages, l.SwapPages, l.Ranks = l.Pages/l.Ranks, l.SwapPages/l.Ranks, 0
	}
	return l
}

// Rows is the most rows a value of this kind can have.
func (l Limits) Rows(r graph.Rows) int {
	if r == graph.Logits {
		return l.Logits
	}
	return l.Tokens
}

// PageBytes is what one page of a cache takes: keys of its tokens, then their values; or the state of a recurrent layer.
func (l Limits) PageBytes(c *graph.Cache) int64 { return c.PageBytes(l.PageSize) }
