// Package cuda runs graphs on an NVIDIA GPU, through the driver alone: no cgo and no toolkit. A step is a list of launches on
// one stream; a step of decoding is recorded once a batch size and replayed with one call from then on.
package cuda

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	densesm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/packed"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/skinny"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/lora"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/size"
)

// Device is one GPU.
type Device struct {
	ctx    *driver.Context
	stream *driver.Stream
	loader *kernels.Loader
	owned  map[driver.Ptr]int64 // device memory that Close frees, with its bytes
	host   map[*hostMemory]bool // and host memory
	// hostTable is from how many bytes on tables that are only looked up stay in host memory.
	hostTable int64
	swap      *swapper
	upload    *uploader
	steps     *steps
	sampler   *sampler
	read      reading
	writes    [2]writing

	// What launches that cut their work in pieces meet in, one launch after the other: the pieces of matrix products, those of
	// gemm's (all 0xff between launches), counters that are zero between launches, and squares of rows from one launch to the next.
	partial, sums, counters, squares driver.Ptr
	// What a launch's blocks for adapters hand to the others: numbers, all 0xff between launches, and behind them a counter, which is zero.
	adapted driver.Ptr
	// Planes of adapters (densesm90.Planes), by how many rows they have room for, and counters of the blocks that store them, which are zero between launches.
	planes  map[int]driver.Ptr
	hidden  map[densesm90.Hidden]driver.Ptr // h of their tiles, by how many and of how many passes; At is 0 here
	arrived driver.Ptr

	dequantised driver.Ptr // weights dequantised to bf16, one layer at a time; 0 without quantised layers

	loads adapterLoads

	transport string                // of collectives
	groups    []*peers              // that it is in
	aborted   atomic.Pointer[error] // why it waits for no other rank any more

	lost error // the fault after which the GPU answers nothing but errors
}

var (
	_ backend.Device    = (*Device)(nil)
	_ backend.Measurer  = (*Device)(nil)
	_ backend.NormFuser = (*Device)(nil)
	_ backend.Refuser   = (*Device)(nil)
	_ backend.Writer    = (*Device)(nil)

	_ backend.LevelMeasurer = (*Device)(nil)
)

// Options says how to use the GPU.
type Options struct {
	Ordinal int // which GPU, as CUDA counts them
	Arch    int // run the kernels for this compute capability, 80 or 90, in place of the GPU's own; 0: its own

	Transport string // of collectives with other GPUs: OwnOrNCCL, OwnKernels or OnlyNCCL

	Note func(text string) // called with what takes long, perhaps by another goroutine; may be nil
}

// Devices lists the GPUs, those that are too old for our kernels too; the error says why there is none.
func Devices() ([]driver.Device, error) {
	d, err := driver.Open()
	if err != nil {
		return nil, err
	}
	return d.Devices()
}

// oldest is the least compute capability that our kernels run on, times ten.
const oldest = 80

// New opens a GPU.
func New(o Options) (*Device, error) {
	all, err := Devices()
	if err != nil {
		return nil, err
	}
	switch o.Transport {
	case OwnOrNCCL, OwnKernels, OnlyNCCL:
	default:
		return nil, fmt.Errorf("cuda: GPUs exchange numbers through nccl or their own kernels (peer), not through %q (--rank-transport)", o.Transport)
	}
	if o.Ordinal < 0 || o.Ordinal >= len(all) {
		return nil, fmt.Errorf("cuda: there is no GPU %d; the last one is GPU %d", o.Ordinal, len(all)-1)
	}
	if g := all[o.Ordinal]; g.Arch() < oldest {
		return nil, fmt.Errorf("cuda: GPU %d (%s) is too old: it has compute capability %d.%d, and %d.%d (Ampere) or newer is needed; take another GPU, or --backend cpu",
			g.Ordinal, g.Name, g.Major, g.Minor, oldest/10, oldest%10)
	}
	ctx, err := all[o.Ordinal].Open()
	if err != nil {
		return nil, err
	}
	arch := ctx.Arch()
	if o.Arch != 0 {
		arch = min(arch, o.Arch)
	}
	d := &Device{ctx: ctx, loader: kernels.NewLoader(ctx, arch), owned: map[driver.Ptr]int64{}, host: map[*hostMemory]bool{}, hostTable: graph.HostTable, transport: o.Transport}
	if o.Note != nil {
		d.loader.WhenSlow(func() { o.Note("assembling kernels for this GPU, which its driver keeps for the next start") })
	}
	if err := ctx.Do(d.start); err != nil {
		return nil, errors.Join(err, ctx.Close())
	}
	return d, nil
}

func (d *Device) start() (err error) {
	if d.stream, err = d.ctx.NewStream(); err != nil {
		return err
	}
	d.stream.Overlap = d.loader.Hopper()
	if err := d.shared(); err != nil {
		return err
	}
	if d.swap, err = newSwapper(d.ctx, d.stream); err != nil {
		return err
	}
	if d.upload, err = newUploader(d.ctx); err != nil {
		return err
	}
	if d.steps, err = newSteps(d.ctx, d.stream); err != nil {
		return err
	}
	d.sampler, err = d.newSampler()
	return err
}

// counters is how many there are.
const counters = max(1<<17, packed.MaxTiles)

// shared gets the memory that launches share.
func (d *Device) shared() (err error) {
	if d.counters, err = d.alloc(4*counters, "the kernels' counters"); err != nil {
		return err
	}
	if err := d.stream.Fill(d.counters, 0, 4*counters); err != nil {
		return err
	}
	if !d.hopper() {
		return nil // other kernels do not cut tiles
	}
	pieces := densesm90.PartialBytes(d.ctx.SMs, densesm90.MaxRows)
	if d.partial, err = d.alloc(pieces, "the pieces of packed products"); err != nil {
		return err
	}
	if d.squares, err = d.alloc(packed.SquaresBytes, "the squares of rows"); err != nil {
		return err
	}
	if d.sums, err = d.alloc(pieces, "the pieces of matrix products"); err != nil {
		return err
	}
	if d.adapted, err = d.alloc(skinny.HiddenBytes+4, "products of adapters"); err != nil {
		return err
	}
	if d.arrived, err = d.alloc(lora.ArrivedBytes, "the counters of adapters"); err != nil {
		return err
	}
	return errors.Join(d.stream.Fill(d.sums, 0xff, pieces), d.stream.Fill(d.adapted, 0xff, skinny.HiddenBytes), d.stream.Fill(d.adapted+skinny.HiddenBytes, 0, 4),
		d.stream.Fill(d.arrived, 0, lora.ArrivedBytes))
}

// rowTiles are the rows of the kernels for products: skinny's one by one up to 8, then the widths of gemm's tiles.
var rowTiles = []int{1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, densesm90.MaxRows}

// Info implements backend.Device.
func (d *Device) Info() backend.Info {
	return backend.Info{
		Name: fmt.Sprintf("cuda:%d", d.ctx.Ordinal), Detail: d.ctx.String(), Memory: d.ctx.Memory,
		Threads: 1, Act: graph.BF16, Kernels: d.architecture(), Replays: true, RowTiles: rowTiles,
		Stated: statedPeaks(&d.ctx.Device),
	}
}

// Memory implements backend.MemoryInfo.
func (d *Device) Memory() (free, total int64, err error) {
	err = d.do(func() (err error) {
		free, total, err = d.ctx.MemInfo()
		return err
	})
	return free, total, err
}

// Alloc implements backend.Device.
func (d *Device) Alloc(n int64, what string) (backend.Buffer, error) {
	var p driver.Ptr
	err := d.do(func() (err error) {
		if p, err = d.alloc(n, what); err != nil {
			return err
		}
		return d.stream.Fill(p, 0, n)
	})
	return backend.Buffer{Mem: p, Len: n}, err
}

// alloc gets device memory, which Close frees at the latest. Its error says how much there is and what of it is ours.
func (d *Device) alloc(n int64, what string) (driver.Ptr, error) {
	if n < 0 {
		return 0, fmt.Errorf("cuda: %d bytes for %s", n, what)
	}
	p, err := d.ctx.Alloc(n)
	if driver.IsOutOfMemory(err) {
		free, total, _ := d.ctx.MemInfo()
		var ours int64
		for _, bytes := range d.owned {
			ours += bytes
		}
		return 0, fmt.Errorf("cuda: %s: %s are needed and %s of the GPU's %s are free (%s are ours already); take a smaller model, fewer bits "+
			"a weight, a shorter context or less for the cache (--kv-memory), or stop what else uses the GPU: %w",
			what, size.Text(n), size.Text(free), size.Text(total), size.Text(ours), err)
	}
	if err == nil {
		d.owned[p] = n
	}
	return p, err
}

// drop frees what alloc got. No recorded step may hold its address.
func (d *Device) drop(p driver.Ptr) error {
	delete(d.owned, p)
	return d.ctx.Free(p)
}

// Free implements backend.Device.
func (d *Device) Free(b backend.Buffer) {
	d.upload.drain() // after a program's memory is freed its files may be closed
	if m, ok := b.Mem.(*hostMemory); ok && d.host[m] {
		delete(d.host, m)
		d.do(func() error { return errors.Join(d.swap.stream.Synchronize(), d.ctx.FreeHost(m.bytes)) })
		return
	}
	p, ok := b.Mem.(driver.Ptr)
	if _, ours := d.owned[p]; !ok || !ours {
		return
	}
	d.do(func() error {
		d.steps.forget() // recorded steps may hold the address
		return d.drop(p)
	})
}

// Copy implements backend.Device.
func (d *Device) Copy(dst, src backend.Buffer) error {
	d.read.rows = 0
	return d.do(func() error { return errors.Join(d.swap.awaitAll(), d.stream.Copy(at(dst), at(src), src.Len)) })
}

// at is a buffer's address on the device.
func at(b backend.Buffer) driver.Ptr {
	p, _ := b.Mem.(driver.Ptr)
	return p + driver.Ptr(b.Off)
}

// do runs f with the GPU current. After a fault of a kernel nothing more runs: the first error is returned again.
func (d *Device) do(f func() error) error {
	if d.lost != nil {
		return d.lost
	}
	err := d.ctx.Do(f)
	if aborted := d.aborted.Load(); aborted != nil {
		d.lost = *aborted
		return d.lost
	}
	if driver.IsFault(err) {
		d.lost = fmt.Errorf("cuda: the GPU has faulted: %w: %w", backend.ErrLost, err)
		return d.lost
	}
	return err
}

// Close implements backend.Device.
func (d *Device) Close() error {
	err := d.ctx.Do(func() error {
		first := errors.Join(d.stream.Synchronize(), d.swap.close())
		d.steps.close()
		d.sampler.close()
		d.upload.close()
		first = errors.Join(first, d.writes[0].close(d.ctx), d.writes[1].close(d.ctx))
		if d.read.host != nil {
			d.ctx.FreeHost(d.read.host)
		}
		for p := range d.owned {
			d.ctx.Free(p)
		}
		for m := range d.host {
			d.ctx.FreeHost(m.bytes)
		}
		d.owned = map[driver.Ptr]int64{}
		return errors.Join(first, d.loader.Close(), d.stream.Close())
	})
	return errors.Join(err, d.ctx.Close())
}
