package ridge_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/internal/testkit/leaks"
	"github.com/ridge-llm/ridge/internal/testkit/memdisk"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/store"
)

// The simulation of the whole: server, store, engine and device, in virtual time, under a seed. A seed is some lives of a process over one disk. In a
// life clients call every API, upload files, have batches worked through, read slowly and leave at any byte; steps of the device fail, panic, take
// long, the device is lost; the disk is full, writes are short, syncs fail; the model is loaded again, or fails to be; hours pass at once; and the
// life ends by a stop, the loss of the device or a crash at any operation of the disk. The clock of the next life may be behind. In the
// last life nothing fails, and all that was promised must be there.
//
//	go test . -run TestSimulation -seed 7
//	go test . -run TestSimulation -seeds 10000 -first-seed 1000000
//
// What is drawn is the same for a seed; in which order goroutines run at one instant is not.
var (
	simSeed  = flag.Int64("seed", -1, "the only seed to simulate")
	simSeeds = flag.Int64("seeds", 150, "how many seeds to simulate")
	simFirst = flag.Int64("first-seed", 0, "the first of them")
	simFor   = flag.Duration("simulate-for", 0, "simulate seeds for so long, in place of a number of them")
)

// TestSimulation: whatever happens, whose client stays gets one whole answer, with what it gets alone, or an error that a fault explains; no file, batch
// or line that was taken is lost or doubled; and no page, goroutine or open file is left.
func TestSimulation(t *testing.T) {
	leaks.Check(t)
	path := tiny(t)
	calls := simCalls()
	alone, allocs := findAlone(t, path, calls)
	n := *simSeeds
	if testing.Short() {
		n = min(n, 20)
	}
	if *simSeed >= 0 {
		*simFirst, n = *simSeed, 1
	}
	began := time.Now()
	var next, seeds, requests, lives atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for !t.Failed() {
					i := next.Add(1) - 1
					if *simFor > 0 && time.Since(began) > *simFor || *simFor == 0 && i >= n {
						return
					}
					s := &simulated{t: t, seed: uint64(*simFirst + i), model: path, calls: calls, alone: alone, allocs: allocs}
					s.run()
					seeds.Add(1)
					requests.Add(s.requests.Load())
					lives.Add(int64(s.lives))
				}
			})
		}
	})
	t.Logf("%d seeds, %d lives, %d requests", seeds.Load(), lives.Load(), requests.Load())
}

// findAlone asks a server that has nothing else to do for the answers, and counts how often loading the model allocates memory.
func findAlone(t *testing.T, path string, calls []simCall) (alone []reply, allocs int) {
	var device *simDevice
	m, err := ridge.LoadOn(path, ridge.Options{Threads: 1, Deterministic: true}, func(d backend.Device) backend.Device {
		device = &simDevice{Device: d, rng: rand.New(rand.NewPCG(1, 1)), faults: &simFaults{}}
		return device
	})
	if err != nil {
		t.Fatal(err)
	}
	if allocs = device.allocs; allocs < 2 {
		t.Fatalf("loading makes %d allocations", allocs)
	}
	defer m.Close()
	s := server.New(m, server.Options{})
	defer s.Close()
	for _, c := range calls {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "http://localhost"+c.path, strings.NewReader(c.body))
		s.ServeHTTP(w, r)
		answer, err := c.parts(w.Body.String())
		if err != nil || w.Code != 200 || answer.failed {
			t.Fatalf("%s %s: %d %s: %v", c.path, c.body, w.Code, w.Body, err)
		}
		alone = append(alone, answer)
	}
	leaks.Pages(t, m)
	return alone, allocs
}

// simulated is one seed's run.
type simulated struct {
	t      *testing.T
	seed   uint64
	model  string
	calls  []simCall
	alone  []reply // what each call is answered with
	allocs int     // that loading the model makes
	disk   *memdisk.Disk

	requests atomic.Int64
	lives    int
	jumped   time.Duration // in all

	mu     sync.Mutex
	stored []*stored
}

// life is one life of the process.
type life struct {
	*simulated
	t       *testing.T // of the life's bubble
	rng     *rand.Rand
	last    bool
	device  simFaults
	options ridge.Options
	pipes   *pipes
	stopped context.Context // the server is to stop
	crashed chan struct{}   // closed at the crash
	models  []*ridge.Model
	servers []*server.Server
}

func (s *simulated) run() {
	s.disk = memdisk.New(rand.New(rand.NewPCG(s.seed, 21)))
	rng := rand.New(rand.NewPCG(s.seed, 22))
	n := 1 + rng.IntN(3)
	for i := 0; i <= n && !s.t.Failed(); i++ {
		s.lives++
		synctest.Test(s.t, func(t *testing.T) {
			l := &life{simulated: s, t: t, rng: rand.New(rand.NewPCG(s.seed, uint64(30+i))), last: i == n, crashed: make(chan struct{})}
			l.run()
		})
	}
	if s.t.Failed() {
		s.t.Logf("again: go test . -run TestSimulation -seed %d", s.seed)
	}
}

func (l *life) errorf(format string, args ...any) {
	l.t.Helper()
	l.t.Errorf("seed %d, life %d: %s", l.seed, l.lives, fmt.Sprintf(format, args...))
}

// draw chooses the faults of the life, and how it is set up.
func (l *life) draw() (f memdisk.Faults) {
	rng := l.rng
	l.options = ridge.Options{Threads: 1, Deterministic: true, Parallel: 1 + rng.IntN(4), MaxWaiting: 2 + rng.IntN(12)}
	if rng.IntN(2) == 0 {
		l.options.KV.Bytes = 48 << 10 // a request or two
	}
	if l.last {
		return f
	}
	if rng.IntN(2) == 0 {
		for _, rate := range []*float64{&l.device.run, &l.device.panics, &l.device.slow} {
			if rng.IntN(2) == 0 {
				*rate = 0.05 * rng.Float64()
			}
		}
		if rng.IntN(6) == 0 {
			l.device.lost = 0.01
		}
	}
	if rng.IntN(3) == 0 {
		f.FullRate = 0.3 * rng.Float64()
	}
	if rng.IntN(4) == 0 {
		f.SyncRate = 0.1 * rng.Float64()
	}
	if rng.IntN(2) == 0 {
		f.CrashAt = 1 + rng.IntN(150)
	}
	crashed := l.crashed
	f.OnCrash = func() { close(crashed) }
	return f
}

func (l *life) run() {
	faults := l.draw()
	l.disk.Start(faults)
	st, err := store.OpenOn(l.disk, "data")
	if err != nil {
		if !l.disk.Dead() {
			l.errorf("the store does not open: %v", err)
		}
		return
	}
	if d := st.Damaged(); len(d) > 0 {
		l.errorf("the store is damaged: %v", d)
	}
	l.kept(st)
	log := slog.New(&simLog{life: l})
	o := server.Options{Store: st, Log: log, Drain: time.Duration(1+l.rng.IntN(3000)) * time.Millisecond}
	if err := l.load(0, o); err != nil {
		l.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(l.t.Context())
	defer stop()
	l.pipes, l.stopped = newPipes(), ctx
	front, returned := server.NewFront(log), make(chan error, 1)
	go func() {
		returned <- front.ServeLoading(ctx, l.pipes, func() (server.Site, error) { return l.servers[0], nil }, func() {})
	}()
	synctest.Wait()
	var clients sync.WaitGroup
	l.clients(&clients)
	over := make(chan struct{})
	go func() {
		defer close(over)
		l.disturb(front, o)
		clients.Wait()
		if l.last {
			l.check()
		}
	}()
	l.end(stop, returned, over)
	<-over
	for i, m := range l.models {
		l.servers[i].Close()
		if err := m.Drain(context.Background()); err != nil && !l.device.fails() {
			l.errorf("draining: %v", err)
		}
		if s := m.Stats(); l.device.lost == 0 && (s.Running+s.Waiting > 0 || s.PagesUsed > 0) {
			l.errorf("at the end %d requests run, %d wait, and %d pages are held", s.Running, s.Waiting, s.PagesUsed)
		}
		if err := m.Close(); err != nil {
			l.errorf("closing the model: %v", err)
		}
	}
	if err := st.Close(); err != nil {
		l.errorf("closing the store: %v", err)
	}
	if n := l.disk.Open(); n > 0 {
		l.errorf("%d files are open at the end", n)
	}
	l.allEnded()
}

// load loads a model whose alloc-th allocation fails, if that is not 0, and makes a server of it.
func (l *life) load(alloc int, o server.Options) error {
	faults := l.device
	faults.alloc = alloc
	rng := rand.New(rand.NewPCG(l.seed, uint64(50+len(l.models))))
	m, err := ridge.LoadOn(l.model, l.options, func(d backend.Device) backend.Device { return &simDevice{Device: d, rng: rng, faults: &faults} })
	if err != nil {
		return err
	}
	if len(l.servers) > 0 {
		l.servers[len(l.servers)-1].Close() // two servers must not work on the same batches
	}
	l.models, l.servers = append(l.models, m), append(l.servers, server.New(m, o))
	return nil
}

// disturb does what may happen to a process.
func (l *life) disturb(front *server.Front, o server.Options) {
	// end draws from the life's numbers at the same time.
	rng := rand.New(rand.NewPCG(l.seed, uint64(l.lives)<<32+1<<16))
	if !l.last && rng.IntN(3) == 0 { // the disk is full for a while
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
		l.disk.SetFull(true)
		time.Sleep(time.Duration(rng.IntN(5000)) * time.Millisecond)
		l.disk.SetFull(false)
	}
	if rng.IntN(3) == 0 {
		time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
		alloc := rng.IntN(2) * (1 + rng.IntN(l.allocs))
		switch err := l.load(alloc, o); {
		case err == nil:
			front.Replace(l.servers[len(l.servers)-1])
		case alloc == 0 || !errors.Is(err, errSim):
			l.errorf("loading the model again: %v", err)
		}
	}
	if !l.last && rng.IntN(4) == 0 { // hours pass at once
		d := time.Duration(rng.IntN(30)) * time.Hour
		l.jumped += d
		time.Sleep(d)
	}
}

// end has the life end: when all clients have what they want and all batches are done, earlier by a stop, or when the process does.
func (l *life) end(stop func(), returned <-chan error, over <-chan struct{}) {
	early := make(<-chan time.Time)
	if !l.last && l.rng.IntN(2) == 0 {
		early = time.After(time.Duration(l.rng.IntN(4000)) * time.Millisecond)
	}
	var err error
	crashed := false
	select {
	case <-l.crashed:
		l.pipes.cut()
		crashed = true
	case err = <-returned: // the model has failed
		if !l.device.fails() {
			l.errorf("the server ends: %v", err)
		}
		stop()
		l.pipes.cut()
		return
	case <-over:
	case <-early:
		if l.rng.IntN(2) == 0 {
			l.disk.Crash()
			l.pipes.cut()
			crashed = true
		}
	}
	stop()
	err = <-returned
	l.pipes.cut()
	if crashed && errors.Is(err, net.ErrClosed) { // the server saw its listener go before it was stopped
		return
	}
	if err != nil && !strings.Contains(err.Error(), "were cut off") && !l.device.fails() {
		l.errorf("the server ends with %v", err)
	}
}

// simLog is the server's log. In a life without faults it has no errors: clients that leave and batches that are cancelled are none.
type simLog struct {
	*life
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h *simLog) Enabled(_ context.Context, level slog.Level) bool {
	return h.last && level >= slog.LevelError
}

// Handle implements slog.Handler.
func (h *simLog) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clone(h.attrs)
	r.Attrs(func(a slog.Attr) bool { attrs = append(attrs, a); return true })
	h.errorf("the log has an error and nothing has failed: %s %v", r.Message, attrs)
	return nil
}

// WithAttrs implements slog.Handler.
func (h *simLog) WithAttrs(more []slog.Attr) slog.Handler {
	return &simLog{h.life, slices.Concat(h.attrs, more)}
}

// WithGroup implements slog.Handler.
func (h *simLog) WithGroup(string) slog.Handler { return h }

// allEnded looks for goroutines of the life that wait for something that will never be. Their bubble would end with a panic, which knows no seed.
func (l *life) allEnded() {
	synctest.Wait()
	here := make([]byte, 1<<10)
	bubble := regexp.MustCompile(`synctest bubble \d+\]`).FindString(string(here[:runtime.Stack(here, false)]))
	for _, stack := range leaks.Goroutines() {
		if head, _, _ := strings.Cut(stack, "\n"); strings.Contains(head, bubble) {
			l.errorf("a goroutine is left: %s", stack)
		}
	}
}

// settled waits until no batch is under way.
func (l *life) settled(answer func() []batchState) (all []batchState) {
	for range 2 * 24 * 60 {
		all = answer()
		busy := slices.ContainsFunc(all, func(b batchState) bool { return b.Ended+b.Failed+b.Cancelled+b.Expired == 0 })
		if !busy {
			return all
		}
		time.Sleep(time.Minute)
	}
	l.errorf("a batch has not ended after two days: %+v", all)
	return all
}
