package simulate

import (
	"fmt"
	"math"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// small is how many tokens simulated prompts are made of: so few that sampling one takes no time.
const small = 256

// device implements backend.Device and backend.Viewer. Memory has no bytes and kernels do nothing; a step takes the time
// that its size costs.
type device struct {
	clock  *clock
	vocab  int
	cost   func(*graph.Step) float64 // s
	ran    func()                    // after each step's time has passed
	given  func()                    // when the device has been given a step; nil: no matter
	step   graph.Step                // the last one, and of devices with sequences of their own the largest part of it
	rank   graph.Step                // one device's part
	limits backend.Limits
	rows   []float32 // logits
	steps  int64
	spent  time.Duration // in steps
	page   time.Duration // that moving a page of the cache to host memory or back takes
}

// Info implements backend.Device.
func (d *device) Info() backend.Info {
	return backend.Info{Name: "simulated", Detail: "computes nothing", Memory: math.MaxInt64, Threads: 1}
}

// Kernels implements backend.Device.
func (d *device) Kernels(*graph.Node) []backend.Kernel { return []backend.Kernel{nothing{}} }

// Alloc implements backend.Device.
func (d *device) Alloc(n int64, _ string) (backend.Buffer, error) { return backend.Buffer{Len: n}, nil }

// Free implements backend.Device.
func (d *device) Free(backend.Buffer) {}

// Place implements backend.Device.
func (d *device) Place(*graph.Weight, []quant.Tensor) (backend.Weight, error) { return nothing{}, nil }

// Run implements backend.Device: time passes.
func (d *device) Run(_ []backend.Launch, b *backend.Batch) error {
	took, err := d.price(b)
	if err != nil {
		return err
	}
	d.pass(took)
	if d.given != nil {
		d.given()
	}
	return nil
}

// price is how long a step takes: as long as on the device for which it takes longest, whose part of it is d.step then.
func (d *device) price(b *backend.Batch) (time.Duration, error) {
	seconds := math.Inf(-1)
	for rank := range d.ranks() {
		d.part(b, rank)
		s := d.cost(&d.rank)
		if rank == 0 || s > seconds || s == seconds && d.rank.Tokens() > d.step.Tokens() {
			d.step, d.rank = d.rank, d.step
		}
		seconds = max(seconds, s)
	}
	if !(seconds >= 0 && seconds < 1e6) {
		return 0, fmt.Errorf("simulate: a step of %d tokens is priced at %g s", d.step.Tokens(), seconds)
	}
	return time.Duration(math.Round(seconds * 1e9)), nil
}

// ranks is how many devices have parts of a step.
func (d *device) ranks() int { return max(d.limits.Ranks, 1) }

// part makes d.rank one device's part of a step.
func (d *device) part(b *backend.Batch, rank int) {
	if d.limits.Ranks > 1 {
		b.StepOf(d.limits, rank, &d.rank)
	} else {
		b.Step(&d.rank)
	}
}

// pass lets the time of a step pass.
func (d *device) pass(took time.Duration) {
	d.clock.pass(took)
	d.steps++
	d.spent += took
	d.ran()
}

// View implements backend.Viewer: logits that no token is sampled from, since outputs are forced.
func (d *device) View(_ *graph.Value, _ backend.Buffer, n int) ([]float32, error) {
	return d.rows[:n*d.vocab], nil
}

// Read implements backend.Device.
func (d *device) Read(dst []float32, _ *graph.Value, _ backend.Buffer, _, _ int) error {
	clear(dst)
	return nil
}

// Copy implements backend.Device.
func (d *device) Copy(backend.Buffer, backend.Buffer) error { return nil }

// AllocHost implements backend.Swapper.
func (d *device) AllocHost(n int64, what string) (backend.Buffer, error) { return d.Alloc(n, what) }

// SwapOut implements backend.Swapper: time passes, since the step that is scheduled waits for the pages.
func (d *device) SwapOut(moves []backend.Move) error {
	if d.page > 0 {
		d.clock.pass(engine.SwapLag + time.Duration(len(moves))*d.page)
	}
	return nil
}

// SwapIn implements backend.Swapper.
func (d *device) SwapIn(moves []backend.Move) error { return d.SwapOut(moves) }

// HostBytes implements backend.Swapper: there are no bytes, which nobody reads.
func (d *device) HostBytes(backend.Buffer) []byte { return nil }

// Swaps and SwapsDone implement backend.Swapper: copies are done when SwapOut and SwapIn return.
func (d *device) Swaps() int { return 0 }

// SwapsDone is beside Swaps.
func (d *device) SwapsDone() (int, error) { return 0, nil }

// SetAdapter implements backend.AdapterLoader: adapters have no numbers here. What they cost is the price's business.
func (d *device) SetAdapter(backend.Weight, int, *graph.LowRank) error { return nil }

// AdaptersSet implements backend.AdapterLoader: loading takes no time, as it goes on beside steps.
func (d *device) AdaptersSet(done func(error)) { done(nil) }

var (
	_ backend.Swapper       = (*device)(nil)
	_ backend.AdapterLoader = (*device)(nil)
)

// Close implements backend.Device.
func (d *device) Close() error { return nil }

// nothing is a kernel, a launch and a weight that are not there.
type nothing struct{}

func (nothing) Name() string                                           { return "nothing" }
func (nothing) Scratch(*graph.Node, backend.Limits) int64              { return 0 }
func (nothing) Bind(*graph.Node, backend.Args) (backend.Launch, error) { return nothing{}, nil }
func (nothing) String() string                                         { return "nothing" }
func (nothing) Bytes() int64                                           { return 0 }

// program compiles the least graph that an engine can run: tokens in, logits out, and one cache for each group, so that a page is one
// move. What the model's own graph would take is the price's business. With runsAhead it is for a device that samples.
func (d *device) program(lim backend.Limits, runsAhead bool) (*compile.Program, error) {
	d.rows, d.limits = make([]float32, lim.Logits*d.vocab), lim
	if lim.StatePages == 0 { // of a recording of before states were kept in pages
		lim.StatePages = -1
	}
	lookup := func(name string) (graph.Stored, bool) {
		return graph.Stored{Format: quant.F32, Recipe: recipe.Tensor(name)}, true
	}
	b := graph.NewBuilder("simulated", lookup, graph.F32, graph.F16)
	axis := graph.Axis{Name: "vocab", Count: d.vocab, Size: 1}
	one := graph.Axis{Name: "hidden", Count: 1, Size: 1}
	x := b.Embed("embd", b.Weight("token_embd.weight", axis, one), 0)
	if len(lim.Groups) == 0 {
		b.KVWrite(b.Cache(0, one, one, 0), x, x)
	}
	width := convWidth
	if lim.StatePages > 0 { // a state of so many pages
		width = lim.StatePages*lim.PageSize + 1
	}
	for i, group := range lim.Groups {
		if group.Recurrent {
			x = b.CausalConv("conv", i, x, b.Weight(convWeight, one, graph.Axis{Name: "width", Count: width, Size: 1}), nil, false)
			continue
		}
		b.KVWrite(b.Cache(i, one, one, group.Window), x, x)
	}
	x = b.SelectRows("selected", x)
	g, err := b.Finish(b.Linear("logits", x, b.Weight("token_embd.weight", axis, one), nil))
	if err != nil {
		return nil, err
	}
	var on backend.Device = d
	if runsAhead {
		on = &samplingDevice{device: d}
	}
	return compile.Compile(g, on, weightFile{d.vocab, width}, lim)
}

// convWeight is the weight of the layer that stands for a group of recurrent ones, and convWidth its least width: a state is one earlier token.
const (
	convWeight = "conv.weight"
	convWidth  = 2
)

// weightFile is the file of that graph's weights.
type weightFile struct{ vocab, width int }

// Tensor implements compile.Tensors.
func (p weightFile) Tensor(name string) (quant.Tensor, bool) {
	rows, cols := p.vocab, 1
	if name == convWeight {
		rows, cols = 1, p.width
	}
	t, err := quant.NewTensor(quant.F32, rows, cols, make([]byte, 4*rows*cols))
	return t, err == nil
}

// Release implements compile.Tensors.
func (weightFile) Release([]byte) {}
