package ridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ridge-llm/ridge/backend/cuda"
	"github.com/ridge-llm/ridge/comm/world"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/compile/ranks"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/pass"
)

// Ranks spreads the devices of a Layout over processes, one each. Rank 0 is a Model like any other (Load); the others work for it (Work). All are given the same
// model and Options. See docs/parallel.md.
type Ranks struct {
	Rendezvous string       // host:port at which rank 0 listens for the others; "": all devices are of this process
	Number     int          // of this process, from 0
	Listener   net.Listener // of rank 0 at Rendezvous, which is closed when all have come; nil: one is made
	Secret     string       // that all ranks know, of 16 bytes at least; it is not sent
	Local      int          // which of this host's ranks this process is, from 0: it takes that GPU of Backend's
	// Transport is what devices exchange activations through. On CPUs: shm, tcp, mpi or "", shared memory where ranks have it. On GPUs, of one process too: nccl, peer, Ridge's
	// kernels on memory that GPUs reach, or "", these where GPUs reach each other and else NCCL.
	Transport string
	// Meet is how long ranks wait for each other; 0: a minute. Noticed is after what time without a word a rank is gone; 0: 2 s.
	Meet, Noticed time.Duration
	// Ended is told when a rank that has been started for this one ends before all have met: nobody waits for it then. It may be nil.
	Ended <-chan error
	// Loaded is called by Work when this process has its part of the model, and waits for steps. It may be nil.
	Loaded func()
}

// GPUTransport is the Transport, if it is one of GPUs; or else "".
func (r Ranks) GPUTransport() string {
	if r.Transport == cuda.OwnKernels || r.Transport == cuda.OnlyNCCL {
		return r.Transport
	}
	return ""
}

// HostTransport is the Transport of what the host moves; "" where GPUs exchange all by themselves.
func (r Ranks) HostTransport() string {
	if r.GPUTransport() != "" {
		return ""
	}
	return r.Transport
}

// check refuses ranks that cannot meet.
func (r Ranks) check(l Layout, backend string) error {
	if t := r.GPUTransport(); t != "" && !device.OnGPU(backend) {
		return fmt.Errorf("ridge: Ranks.Transport (--rank-transport) %s is for GPUs; CPUs exchange numbers through shm, tcp or mpi", t)
	}
	if r.Rendezvous == "" {
		if r.Number != 0 || r.Local != 0 || r.Secret != "" || r.Listener != nil {
			return errors.New("ridge: Ranks has a Number, a Local, a Secret or a Listener and no Rendezvous (--rendezvous), the host:port of rank 0")
		}
		return nil
	}
	n := l.Devices()
	switch {
	case n == 1:
		return errors.New("ridge: Ranks has a Rendezvous and the layout one device; give Tensor (--tp), Pipeline (--pp), Sequence (--sp) or Data (--dp), whose product is the number of ranks")
	case r.Number < 0 || r.Number >= n:
		return fmt.Errorf("ridge: Ranks.Number (--rank) is %d; the layout %s has %d ranks, counted from 0", r.Number, l.passes(), n)
	}
	return nil
}

// meet has this process and the others of its layout find each other.
func (m *Model) meet(o Options, passes pass.Options) (*world.World, error) {
	facts, err := m.facts(o, passes)
	if err != nil {
		return nil, err
	}
	r := o.Ranks
	w, err := world.Meet(context.Background(), world.Options{Rank: r.Number, Size: o.Layout.Devices(), Address: r.Rendezvous, Listener: r.Listener, Secret: []byte(r.Secret), Facts: facts,
		Groups: ranks.Groups(passes.Layout), Transport: r.HostTransport(), Meet: r.Meet, Noticed: r.Noticed, Ended: r.Ended, Note: o.Note})
	if err != nil {
		return nil, fmt.Errorf("ridge: %w", err)
	}
	return w, nil
}

// facts are what all ranks must have alike.
func (m *Model) facts(o Options, passes pass.Options) ([]world.Fact, error) {
	print, err := m.dir.Fingerprint()
	if err != nil {
		return nil, err
	}
	info := m.device.Info()
	return []world.Fact{
		{Name: "version", Value: buildVersion()},
		{Name: "model", Value: m.dir.Name + " " + print[:16]},
		{Name: "layout", Value: passes.Layout.String()},
		{Name: "type of cached keys (--kv-type)", Value: o.Cache},
		{Name: "quantization", Value: o.Quantization},
		{Name: "adapters (--max-loras, --max-lora-rank)", Value: fmt.Sprintf("%d of rank %d", passes.Adapters.Slots, passes.Adapters.Rank)},
		{Name: "hidden states (--pooling)", Value: m.pooling},
		{Name: "placement of experts (--expert-load, --redundant-experts)", Value: passes.Loads.String()},
		{Name: "arithmetic of devices", Value: fmt.Sprintf("%s %s Q8=%t BF16=%t", strings.SplitN(info.Name, ":", 2)[0], info.Act, info.Q8, info.BF16)},
	}, nil
}

// buildVersion is the version of the program, as far as its builder has noted it.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	v := info.GoVersion + " " + info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.modified" {
			v += " " + s.Value
		}
	}
	return v
}

// Work computes this process's part of a model for rank 0, until that closes the model; then it returns nil. path and o are what rank 0 is given, and Options.Ranks
// says which rank this is. An error is why the ranks' work has ended: one that died, a link that is cut, a step that failed; rank 0 and all others have it too.
func Work(path string, o Options) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	if o.Ranks.Number == 0 {
		return errors.New("ridge: Work is for ranks other than 0, which loads the model (Ranks.Number, --rank)")
	}
	r, err := NewRuntime(RuntimeOptions{Threads: o.Threads})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	b, err := open(path)
	if err != nil {
		return err
	}
	if err := r.enter(); err != nil {
		return errors.Join(err, b.Close())
	}
	m := &Model{name: b.Name, dir: b, runtime: r}
	defer func() { err = errors.Join(err, m.Close()) }()
	return m.reading(func() error { return m.work(o) })
}

func (m *Model) work(o Options) error {
	g, passes, err := m.graph(o)
	if err != nil {
		return err
	}
	if passes.Layout, err = compile.FitTo(m.device, o.Layout.passes(), g); err != nil {
		return fmt.Errorf("ridge: %w", err)
	}
	w, err := m.meet(o, passes)
	if err != nil {
		return err
	}
	loaded := o.Ranks.Loaded
	if loaded == nil {
		loaded = func() {}
	}
	err = ranks.Work(g, passes, m.device, m.dir, w, loaded)
	return errors.Join(err, w.Close())
}

// startRanks compiles a graph, which is the one before the passes, on all ranks.
func (m *Model) startRanks(prog *loaded, g *graph.Graph, passes pass.Options, w *world.World) error {
	lead, err := ranks.Start(g, passes, m.device, m.dir, m.limits, w)
	if err != nil {
		w.Fail(err) // the other ranks wait
		return errors.Join(err, w.Close())
	}
	prog.Runner, prog.prefault, prog.lost = lead, lead.PrefaultAhead, w
	return nil
}

// watch has the engine end when the ranks' work does, also while it is idle.
func (m *Model) watch(w *world.World) {
	<-w.Lost()
	if err := w.Err(); !errors.Is(err, world.ErrOver) {
		m.engine.Fail(fmt.Errorf("ridge: %w", err))
	}
}
