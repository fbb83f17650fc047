package cuda

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/collective"
	"github.com/ridge-llm/ridge/backend/cuda/nccl"
)

// Transports of collectives between GPUs.
const (
	OwnOrNCCL  = ""     // our kernels where GPUs reach each other's memory, and NCCL where they do not
	OwnKernels = "peer" // our kernels alone
	OnlyNCCL   = "nccl"
)

// peers is this GPU's end of a group. It implements backend.Peers.
type peers struct {
	d      *Device
	meet   backend.Gatherer
	window driver.Ptr
	opened []driver.Ptr // windows of other processes
	group  collective.Group
	own    bool // our kernels can be used

	ending sync.Mutex
	abort  []byte // pinned: a word that kernels look at; nil: the group is closed

	nccl    ncclGroup
	routing routing
}

var _ backend.Exchanger = (*Device)(nil)

// card is what a rank tells the others of itself.
type card struct {
	Problem string
	Host    string // processes with the same can open each other's memory
	Process string // in which addresses of contexts and windows mean something
	GPU     string
	Ordinal int    // in its process
	Context uint64 `json:",string"`
	Window  uint64 `json:",string"`
	Share   []byte // of the window
	NCCL    string // version; "": none
	ID      []byte // of rank 0
}

// Join implements backend.Exchanger.
func (d *Device) Join(g backend.Gatherer) (backend.Peers, error) {
	p := &peers{d: d, meet: g, group: collective.Group{Rank: g.Rank(), Ranks: g.Size(), SMs: d.loader.SMs()}}
	var library *nccl.Library
	var missing error
	if d.transport != OwnKernels {
		library, missing = nccl.Open()
	}
	mine := card{}
	problem := d.do(func() (err error) {
		mine, err = p.introduce(library)
		return err
	})
	if problem != nil {
		mine.Problem = problem.Error()
	}
	cards, err := exchange(g, mine)
	if err == nil {
		err = p.join(cards, library, missing)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cuda: GPU %d as rank %d of %d: %w", d.ctx.Ordinal, g.Rank(), g.Size(), err), p.Close())
	}
	d.groups = append(d.groups, p)
	return p, nil
}

// introduce makes this rank's window and says where it is.
func (p *peers) introduce(library *nccl.Library) (c card, err error) {
	d := p.d
	if p.abort, err = d.ctx.AllocHost(4); err != nil {
		return c, err
	}
	d.host[&hostMemory{bytes: p.abort}] = true
	clear(p.abort)
	p.group.Aborted = driver.Host(p.abort)
	if p.window, err = d.alloc(collective.WindowBytes, "what other GPUs write to"); err != nil {
		return c, err
	}
	if err := errors.Join(d.stream.Fill(p.window, 0, collective.Zeros), d.stream.Fill(p.window+collective.Zeros, 0xff, collective.WindowBytes-collective.Zeros), d.stream.Synchronize()); err != nil {
		return c, err
	}
	id, err := d.ctx.UUID()
	if err != nil {
		return c, err
	}
	c = card{Host: host(), GPU: fmt.Sprintf("%x", id), Ordinal: d.ctx.Ordinal, Context: uint64(d.ctx.Handle()), Window: uint64(p.window)}
	c.Process = fmt.Sprintf("%s %s %d", c.Host, namespace(), os.Getpid())
	if share, err := d.ctx.Share(p.window); err == nil { // where it cannot be shared other processes do without
		c.Share = share[:]
	}
	if library == nil {
		return c, nil
	}
	if c.NCCL = library.Version(); p.group.Rank == 0 {
		id, err := library.NewID()
		c.ID = id[:]
		return c, err
	}
	return c, nil
}

// host names this boot of this machine.
func host() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot))
}

func namespace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
}

// cardBytes is what a card takes on its way, padded: all ranks' are of one size.
const cardBytes = 2048

// exchange gives every rank the cards of all. Each byte is a number of an all-gather.
func exchange[T any](g backend.Gatherer, mine T) ([]T, error) {
	data, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	if len(data) > cardBytes {
		return nil, fmt.Errorf("%d bytes about a rank, and %d are possible", len(data), cardBytes)
	}
	src, dst := make([]float32, cardBytes), make([]float32, cardBytes*g.Size())
	for i, b := range data {
		src[i] = float32(b)
	}
	if err := g.AllGather(dst, src); err != nil {
		return nil, err
	}
	all := make([]T, g.Size())
	for i := range all {
		var text []byte
		for _, b := range dst[i*cardBytes:][:cardBytes] {
			if b != 0 {
				text = append(text, byte(b))
			}
		}
		if err := json.Unmarshal(text, &all[i]); err != nil {
			return nil, fmt.Errorf("what rank %d says of itself: %w", i, err)
		}
	}
	return all, nil
}

// agree has all ranks fail where one does, with its reason.
func agree(g backend.Gatherer, problem error) error {
	text := ""
	if problem != nil {
		if text = problem.Error(); len(text) > cardBytes/2 {
			text = text[:cardBytes/2]
		}
	}
	all, err := exchange(g, text)
	if err != nil {
		return err
	}
	for rank, text := range all {
		if text != "" {
			return fmt.Errorf("rank %d: %s", rank, text)
		}
	}
	return nil
}

// join opens the others' windows and the NCCL group.
func (p *peers) join(cards []card, library *nccl.Library, missing error) error {
	all := true // ranks have NCCL
	for i, c := range cards {
		if c.Problem != "" {
			return fmt.Errorf("rank %d: %s", i, c.Problem)
		}
		all = all && c.NCCL != ""
		for _, other := range cards[:i] {
			p.group.Share = p.group.Share || other.GPU == c.GPU
		}
	}
	apart := errors.New("--rank-transport nccl")
	if p.d.transport != OnlyNCCL {
		apart = agree(p.meet, p.d.do(func() error { return p.open(cards) }))
	}
	p.own = apart == nil
	if p.own {
		return nil
	}
	if !all {
		return fmt.Errorf("GPUs do not reach each other's memory (%w), and NCCL is not there for all ranks (%w); install NCCL 2.11 or newer, or take one GPU", apart, cmp.Or(missing, errors.New("another rank has none")))
	}
	if p.group.Share {
		return fmt.Errorf("two ranks share a GPU, which NCCL refuses; give each a GPU of its own, or leave out --rank-transport nccl (%w)", apart)
	}
	var id nccl.ID
	copy(id[:], cards[0].ID)
	return agree(p.meet, p.d.do(func() error { return p.joinNCCL(library, id) }))
}

// open makes the others' windows addressable.
func (p *peers) open(cards []card) error {
	if len(cards) > collective.MaxRanks {
		return fmt.Errorf("our kernels are for up to %d ranks", collective.MaxRanks)
	}
	ctx := p.d.ctx
	for i, c := range cards {
		switch mine := cards[p.group.Rank]; {
		case c.Process == mine.Process && c.GPU == mine.GPU:
			p.group.Windows[i] = driver.Ptr(c.Window)
		case c.Process == mine.Process:
			can, err := ctx.Reaches(c.Ordinal)
			if err == nil && !can {
				err = fmt.Errorf("GPU %d does not reach the memory of GPU %d", ctx.Ordinal, c.Ordinal)
			}
			if err == nil {
				err = ctx.Reach(uintptr(c.Context))
			}
			if err != nil {
				return err
			}
			p.group.Windows[i] = driver.Ptr(c.Window)
		case c.Host == "" || c.Host != mine.Host:
			return fmt.Errorf("rank %d is on another host", i)
		case len(c.Share) == 0:
			return fmt.Errorf("the memory of rank %d cannot be shared with other processes", i)
		default:
			window, err := ctx.OpenShared(driver.Shareable(c.Share))
			if err != nil {
				return err
			}
			p.opened = append(p.opened, window)
			p.group.Windows[i] = window
		}
	}
	return nil
}

// barrier waits for the other ranks on the host.
func (p *peers) barrier() error { return agree(p.meet, nil) }

// Abort implements backend.Peers.
func (p *peers) Abort(err error) {
	p.ending.Lock()
	defer p.ending.Unlock()
	if p.abort == nil {
		return
	}
	lost := fmt.Errorf("cuda: GPU %d waits for other ranks: %w: %w", p.d.ctx.Ordinal, backend.ErrLost, err)
	p.d.aborted.CompareAndSwap(nil, &lost)
	(*atomic.Uint32)(unsafe.Pointer(&p.abort[0])).Store(1)
	p.nccl.end(p.d.ctx, (*nccl.Comm).Abort)
}

// Close implements backend.Peers.
func (p *peers) Close() error {
	p.ending.Lock()
	defer p.ending.Unlock()
	p.abort = nil // the device frees it
	p.d.groups = slices.DeleteFunc(p.d.groups, func(g *peers) bool { return g == p })
	return p.d.ctx.Do(func() error {
		err := errors.Join(p.d.stream.Synchronize(), p.leaveNCCL())
		for _, w := range p.opened {
			err = errors.Join(err, p.d.ctx.CloseShared(w))
		}
		p.opened = nil
		return err
	})
}
