// Package ridge runs large language models in a Go program: load a model, stream its answers.
//
//	m, err := ridge.Load("", ridge.Options{}) // "" is the small built-in model
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer m.Close()
//	for piece, err := range m.Generate(ctx, "Once upon a time", m.Defaults()) {
//		if err != nil {
//			log.Fatal(err)
//		}
//		fmt.Print(piece.Text)
//	}
//
// A Model serves any number of goroutines at once; their requests share each step of the engine.
package ridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/compile/earlyexit"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/grammar/language"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/recording"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/tokenizer"
)

// Model is a loaded model with its engine.
type Model struct {
	name        string
	dir         *modeldir.Dir
	device      backend.Device
	backend     string           // Options.Backend
	others      []backend.Device // of a layout, or of a split, beside it
	runsOn      string           // see Device
	split       *split           // nil: all layers are on devices of one backend
	engine      *engine.Engine
	price       stepPrice // nil: steps cannot be priced
	tokenizer   *tokenizer.Tokenizer
	template    *chat.Template // nil: the model brings none
	guard       *chat.Guard    // nil: control tokens in content act as tokens
	noSystem    bool           // see Options.RefuseSystem
	advice      modeldir.Generation
	ends        []int32
	context     int
	limits      backend.Limits
	memory      compile.Memory
	pooling     string                             // one of the Pool constants
	width       int                                // of an embedding
	head        *modeldir.Head                     // of a model that compares texts; nil: there is none
	dense       []modeldir.Dense                   // layers behind pooling
	segments    int                                // that an encoder tells apart
	languages   func() (*language.Compiler, error) // made when first asked for
	breakers    breakerTokens
	secret      [32]byte          // keys the salts of tenants
	recordOf    string            // the tenant whose requests a recording shows that hides all others
	exits       *earlyexit.Runner // nil: no token leaves the model early
	recording   *recording.Writer // nil: there is none
	adapters    *adapterSet
	runtime     *Runtime
	sketches    sketches // while it is loaded
	reserved    int64    // bytes of the device that the Runtime has reserved for the model
	reservedCPU int64    // likewise of the CPU, for the first layers of a split model
	ownsRuntime bool
	closing     sync.Once
	closed      error
	files       sync.RWMutex // held while dir's are asked, and to close them
	readsFiles  bool         // steps read dir's files; a GPU has a copy of its own

	quantization string    // Options.Quantization
	kvSeed       kv.Key    // of the keys of pages that are kept beyond the cache
	transfer     *transfer // nil: none
	layout       Layout
	sharedAlone  bool // of Options.KVOffload there is a shared folder and no disk
}

// Load opens a GGUF file or a Hugging Face directory and starts an engine on it. An empty path is the built-in model,
// which knows small stories and the vocabulary of LLM inference.
//
// The model has the device to itself; see Runtime for several that share one.
func Load(path string, o Options) (*Model, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r, err := NewRuntime(RuntimeOptions{Threads: o.Threads})
	if err != nil {
		return nil, err
	}
	m, err := r.load(path, o)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	m.ownsRuntime = true
	return m, nil
}

func open(path string) (*modeldir.Dir, error) {
	if path == "" {
		return modeldir.Builtin()
	}
	return modeldir.Open(path)
}

// start reads the text side of the model and compiles the number side, side by side: either takes as long as the other.
func (m *Model) start(o Options) error {
	var both errgroup.Group
	both.Go(func() error { return m.reading(func() error { return m.readText(o) }) })
	both.Go(func() error { return m.reading(func() error { return m.compile(o) }) })
	return both.Wait()
}

// readText reads what turns text into tokens and back.
func (m *Model) readText(o Options) (err error) {
	if m.tokenizer, err = m.dir.Tokenizer(); err != nil {
		return err
	}
	if m.template, err = m.dir.Template(m.tokenizer, o.Template); err != nil {
		return err
	}
	m.noSystem = o.RefuseSystem
	if m.template != nil && !o.TrustContent {
		m.guard = m.newGuard()
	}
	if m.advice, err = m.dir.Generation(); err != nil {
		return err
	}
	m.ends = slices.Compact(slices.Sorted(slices.Values(append(m.tokenizer.Ends(), m.advice.Ends...))))
	return nil
}

// prefaultedAhead is how much of the cache's memory is there before steps need it, in bytes: the whole cache of small models, whose
// short steps would be long ones otherwise, and no more of a large one than it is going to use soon.
const prefaultedAhead = 1 << 30

// graph opens the chosen device, builds the model's graph for it, and says what the passes are to do.
func (m *Model) graph(o Options) (g *graph.Graph, passes pass.Options, err error) {
	if _, err = device.CacheType(o.Backend, o.Cache); err != nil {
		return nil, passes, err
	}
	if m.device, err = m.runtime.devices.Open(o.device()); err != nil {
		return nil, passes, err
	}
	if err := m.runtime.withhold(m.device); err != nil {
		return nil, pass.Options{}, err
	}
	m.backend, m.readsFiles = o.Backend, !device.OnGPU(o.Backend)
	if m.pooling, err = o.pooling(m.dir); err != nil {
		return nil, passes, err
	}
	if err = m.readHead(); err != nil {
		return nil, passes, err
	}
	if g, passes, err = m.graphOn(m.device, o); err != nil {
		return nil, passes, err
	}
	for _, w := range m.dir.Model.Warnings {
		if o.Note != nil {
			o.Note(strings.TrimPrefix(w, "model: "))
		}
	}
	return g, passes, nil
}

// graphOn builds the model's graph for a device, and says what the passes are to do.
func (m *Model) graphOn(dev backend.Device, o Options) (g *graph.Graph, passes pass.Options, err error) {
	cache, err := device.CacheType(o.Backend, o.Cache)
	if err != nil {
		return nil, passes, err
	}
	info := dev.Info()
	if g, err = m.dir.Model.Graph(model.Options{Act: info.Act, Cache: cache, AllHidden: m.pooling != PoolLast}); err != nil {
		return nil, passes, err
	}
	if g, err = o.Speculation.keep(g, m.dir); err != nil {
		return nil, passes, err
	}
	if err := o.checkContext(m.dir.Model.Config, g); err != nil {
		return nil, passes, err
	}
	weights, err := pass.OnLoadFormat(o.Quantization, info.Act)
	passes = pass.Options{Q8: info.Q8, BF16: info.BF16, Weights: weights, Inputs: pass.OnLoadInputs(o.Quantization), Kernels: compile.Kernels{Device: dev}, Adapters: o.adapters()}
	if err == nil {
		passes.Loads, err = o.Layout.loads()
	}
	return g, passes, err
}

// compile makes the model's graph a program of the chosen device and starts an engine on it.
func (m *Model) compile(o Options) error {
	o.Speculation = o.Speculation.recognised()
	if err := m.errDiffusion(o); err != nil {
		return err
	}
	if o.GPULayers == NoGPULayers {
		o.Backend, o.GPULayers = "cpu", 0
	}
	g, passes, err := m.graph(o)
	if err != nil {
		return err
	}
	asked := o.Backend
	if o, err = m.divide(o, g); err != nil {
		return err
	}
	if o.Backend != asked { // the CPU takes less time alone
		if err := m.closeDevices(); err != nil {
			return err
		}
		if g, passes, err = m.graph(o); err != nil {
			return err
		}
	}
	m.quantization = o.Quantization
	prog, err := m.place(o, g, passes)
	m.sketches = sketches{}
	if err != nil {
		return err
	}
	if o.Warm {
		prog.Warm()
		prog.prefault(prefaultedAhead)
	}
	m.runsOn = m.describe()
	m.width = prog.HiddenWidth()
	m.adapters = newAdapters(m, prog.Runner, max(cmp.Or(o.MaxCPULoRAs, defaultCPULoRAs), o.MaxLoRAs))
	return m.startEngine(o, prog)
}

// describe is where the model runs, for people.
func (m *Model) describe() string {
	if m.split != nil {
		return m.split.String()
	}
	i := m.device.Info()
	return fmt.Sprintf("%s (%s)", i.Name, i.Detail)
}

// startEngine starts the engine, which owns the program from then on.
func (m *Model) startEngine(o Options, prog *loaded) error {
	profile := profileOf(m.device)
	settings := o.engine()
	settings.Diffusion = m.finding()
	var err error
	if m.price, err = m.priced(prog, profile); err == nil {
		settings.Predictor = pricing{m.price}
	}
	var page int64
	for group := range prog.Groups() {
		page += prog.PageBytes(group)
	}
	settings.SwapPage = time.Duration(1e9 * profile.Swap(page))
	if m.readsFiles {
		settings.Intact = m.intact
	}
	if settings.Speculation, err = m.speculation(o, prog); err != nil {
		prog.Close()
		return err
	}
	m.sharedAlone, m.layout = o.KVOffload.Disk == "", o.Layout
	if settings.Offload, err = m.offload(o, prog.Runner); err != nil {
		err = errors.Join(err, settings.Speculation.Close())
		prog.Close()
		return err
	}
	runner := prog.Runner
	if len(o.EarlyExit.Layers) > 0 {
		if m.exits, err = m.exiting(o, prog.one); err != nil {
			prog.Close()
			return err
		}
		runner = m.exits
	}
	if o.Record != nil {
		m.recording = recording.NewWriter(o.Record, o.RecordFailed)
		if o.RecordHidden {
			m.recording.Hide(m.Vocab())
			m.recordOf = o.RecordTenant
		}
		settings.Recorder = m.recording
		lim := m.limits
		lim.StatePages = engine.StatePages(runner)
		if err := m.recording.Begin(recording.NewHeader(m.name, m.Vocab(), lim, settings, runner.CanSample() && runner.RunsAhead())); err != nil {
			err = errors.Join(err, settings.Speculation.Close())
			runner.Close()
			return err
		}
	}
	if m.engine, err = engine.New(runner, settings); err == nil && prog.lost != nil {
		go m.watch(prog.lost)
	}
	if err != nil {
		return err
	}
	return m.startTransfer(o)
}

// Name is the model's name for people: of its file or directory.
func (m *Model) Name() string { return m.name }

// Context is the longest that a prompt and its answer may be together, in tokens.
func (m *Model) Context() int { return m.context }

// Parallel is how many requests run at once.
func (m *Model) Parallel() int { return m.limits.Seqs }

// Vocab is how many tokens the model knows: the width of a row of logits.
func (m *Model) Vocab() int { return m.dir.Model.Config.Vocab }

// Device describes where the model runs: "cpu (amd64, 2 threads)". Like all that describes a model it may be asked for after Close.
func (m *Model) Device() string { return m.runsOn }

// Quantization is what the weights were quantised to on load, "fp8", "int8" or "int4"; "" when they are as the file has them.
func (m *Model) Quantization() string { return m.quantization }

// Decode turns token ids into text, special tokens included.
func (m *Model) Decode(ids []int32) string { return m.tokenizer.Decode(ids, false) }

// Memory is what the model takes beside its file, in bytes: weights in the device's own layout, the cache of keys and
// values when it is full, and the activations of the largest step.
func (m *Model) Memory() (weights, cache, activations int64) {
	return m.memory.Weights, m.memory.Caches, m.memory.Arena
}

// Token is the text of one token, special or not, as bytes: it may be a part of a character.
func (m *Model) Token(id int32) []byte { return m.tokenizer.TokenBytes(id) }

// Style is how the model lays out reasoning and tool calls, as far as its chat template shows it.
func (m *Model) Style() chat.Style {
	if m.template == nil {
		return chat.Style{}
	}
	return chat.DetectStyle(m.template.Source())
}

// CanCallTools reports whether the model's chat template shows it the tools of a request.
func (m *Model) CanCallTools() bool { return m.template != nil && m.template.ShowsTools() }

// Err is why the model takes no requests now; nil while it does.
func (m *Model) Err() error {
	if err := m.engine.Err(); err != nil {
		return public(err)
	}
	if m.readsFiles {
		return m.intact()
	}
	return nil
}

// Drain refuses new requests and waits until those under way have ended, or ctx is done.
func (m *Model) Drain(ctx context.Context) error { return m.engine.Drain(ctx) }

// Wait waits until the model answers no more: nil is returned after Close, and else what broke, such as a device.
func (m *Model) Wait() error { return m.engine.Wait() }

// Close stops the engine, ending unfinished requests with ErrClosed, and unmaps the model. A second Close does nothing. The error is what
// could not be closed, or why Options.Record is not complete.
func (m *Model) Close() error {
	m.closing.Do(func() {
		m.closed = m.transfer.close()
		if m.engine != nil {
			m.engine.Close()
			m.adapters.reads.Wait()
		}
		if m.recording != nil {
			m.closed = errors.Join(m.closed, m.recording.Close())
		}
		name := ""
		if m.device != nil {
			name = m.device.Info().Name
			m.closed = errors.Join(m.closed, m.closeDevices())
		}
		m.files.Lock()
		m.closed = errors.Join(m.closed, m.dir.Close())
		m.files.Unlock()
		if m.reservedCPU > 0 {
			m.runtime.giveBack(cpuName, m.reservedCPU)
		}
		m.runtime.leave(name, m.reserved)
		if m.ownsRuntime {
			m.closed = errors.Join(m.closed, m.runtime.Close())
		}
	})
	return m.closed
}
