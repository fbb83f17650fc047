package ridge

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/pass"
)

// Options says how to run a model. The zero value is a good choice.
type Options struct {
	Backend  string // cpu, cuda, cuda:1 (the second GPU), or ref (slow, the definition of what is right); "" is cpu
	Threads  int    // CPU threads; 0: as many as the process may use. A Runtime has its own
	Context  int    // longest prompt and answer together, in tokens; 0: the model's own, 8192 at most
	Parallel int    // requests that run at once; 0: 8
	Cache    string // type of cached keys and values: f16, bf16, f32, int8, or on a GPU fp8; "" is f16
	KV       Budget // memory for them
	Swap     int64  // bytes of host memory to which preempted requests may move their part of it; 0: they are computed again
	// KVOffload keeps what the cache has of prompts beyond it.
	KVOffload KVOffload
	// KVTransfer lets servers compute prompts for each other.
	KVTransfer KVTransfer
	Template   string // chat template to use in place of the model's own; "": its own
	// TrustContent has control tokens that are spelled out in the texts of a conversation act as tokens: whoever writes a text can then
	// forge turns. Else only what the chat template writes is a control token. Prompts that are not chats are the caller's own either way.
	TrustContent bool
	// RefuseSystem has conversations with system messages refused where the chat template has no system role. Else their texts become part of the user's first.
	RefuseSystem bool
	Pooling      string // what an embedding is made of: PoolLast, PoolMean or PoolCLS; "": what the model's files say, or else PoolLast, of an encoder PoolMean

	Policy      string // in which order waiting requests are taken: fcfs, priority, longest-prefix …; "" is fcfs (see ridge serve --help)
	PrefixIndex string // how cached beginnings of prompts are found: radix, hash or none; "" is radix
	MaxWaiting  int    // requests that wait at most, more are refused with ErrQueueFull; 0: 4096
	StepTokens  int    // tokens that a step computes at most; 0: 512, on a GPU that has all layers 2048, on each device of Layout.Sequence or Layout.Data

	// TargetITL is the time between two tokens of an answer that prompts beside it should leave. 0: what a step's answers take alone, four times
	// over, by the prices of steps; NoTargetITL: any time, prompts are read in chunks as large as a step.
	TargetITL time.Duration
	// AgingBound is how long the longest-prefix policy may let a request wait for others with more in the cache, and how long one whose adapters have no slot
	// may wait for others that have; 0: 10 s.
	AgingBound time.Duration
	// WaitingServedRatio lets requests wait, for a while, until there are so many times as many as are running: answers are
	// interrupted less often. 0: never.
	WaitingServedRatio float64
	// CacheEvents is called with every change of what is cached of prompts, in order; the engine waits for it. nil: nobody is told.
	CacheEvents func(CacheEvent)
	// Record is written all that the engine decides and on what grounds, for ridge replay: a line of JSON for each event, prompts and answers
	// included. The engine waits for it. Close completes it. nil: nothing is recorded.
	Record io.Writer
	// RecordHidden has Record hold no token of a prompt or an answer, but others in their places, with which a replay is the same: for
	// prompts of several tenants.
	RecordHidden bool
	// RecordTenant is a tenant (Params.Tenant) whose requests Record holds as they are although RecordHidden hides all others'; "": none.
	RecordTenant string
	// RecordFailed is told at once why Record is not going to be complete, such as a full disk; nothing more is written then. nil: Close
	// returns it.
	RecordFailed func(error)

	// Quantization quantises matrices in F32, F16 or BF16 to eight or four bits on load: "fp8", "int8", "int4", "w8a8" or "llm.int8"; ""
	// leaves them. See docs/quantization.md for what that costs in precision and where it is fast.
	Quantization string

	// Speculation has answers come by several tokens a step: see there. The zero value is off.
	Speculation Speculation
	// EarlyExit has tokens leave the model before its last layer: see there. The zero value is off.
	EarlyExit EarlyExit
	// MaxLoRAs is how many adapters steps may use at once; 0: the model takes none. Others that are loaded wait in host memory or on disk.
	MaxLoRAs int
	// MaxLoRARank is the largest rank of an adapter; 0: 64. MaxCPULoRAs is how many adapters are kept in host memory, the last used; 0: 256,
	// or MaxLoRAs if that is more.
	MaxLoRARank, MaxCPULoRAs int

	// Layout spreads the model over several devices of the backend, which on a CPU share its threads.
	Layout Layout
	// GPULayers is how many of the model's last layers, with what is behind them, are on the GPU of Backend, where those before are on the CPU: see docs/parallel.md.
	// 0: all; NoGPULayers: none; AutoGPULayers: as many as there is memory for, where that is faster than the CPU alone.
	GPULayers GPULayers
	// CPUExperts keeps the experts of so many first layers on the CPU while the rest of these layers is on the GPU of Backend, of a model that has experts: see docs/parallel.md. 0: experts are
	// where their layers are, or where AutoGPULayers chooses; AllCPUExperts: all are on the CPU.
	CPUExperts CPUExperts
	// ExpertCache is the GPU's memory for copies of those experts on the CPU that are used most, bytes; which these are is counted, and others take their places between steps. Rows pass those on the GPU. 0:
	// none; AutoExpertCache: what weights, activations and the KV cache leave.
	ExpertCache ExpertCache
	// Ranks spreads the devices of Layout over processes. The zero value is this process.
	Ranks Ranks

	// Deterministic makes an answer on the CPU independent of the requests beside it, to the last bit, whatever its weights'
	// format; see cpu.Options.
	Deterministic bool

	// Warm has Load do what the device would otherwise do in the first steps, on the CPU the packing of weights and, beside the
	// first requests, finding memory for the cache: the first token comes later, and no step takes longer than those after it.
	Warm bool

	expertSlots int // of each layer whose experts are on the CPU, by ExpertCache

	cachePart float64 // of a Runtime: RuntimeOptions.CachePart

	Note func(text string) // is called with what loading waits for, where that takes long, and with what should be known of the settings; perhaps by another goroutine; may be nil
}

// NoTargetITL is the Options.TargetITL with which prompts may hold up answers for any time.
const NoTargetITL time.Duration = -1

// How Model.Embed makes one vector of a text: models trained for embeddings say which they were trained with.
const (
	PoolLast = "last" // the hidden state of the last token; beginnings of texts are shared through the cache
	PoolMean = "mean" // the mean over all tokens
	PoolCLS  = "cls"  // the hidden state of the first token, which encoders put before a text for that
)

const (
	defaultContext  = 8192
	defaultParallel = 8
	maxStepTokens   = 1 << 16
	defaultLoRARank = 64
	defaultCPULoRAs = 256
	promptRows      = 64 // of logits that a step has at least: those of prompts whose log-probabilities are asked for
)

// stepTokens is how many rows a step may have, at most: what a chunk of a long prompt is.
func (o Options) stepTokens() int {
	name := o.Backend
	if o.GPULayers != 0 || o.CPUExperts != 0 { // the CPU is what steps wait for
		name = "cpu"
	}
	return cmp.Or(o.StepTokens, device.StepTokens(name)*max(o.Layout.Sequence, o.Layout.Data, 1))
}

// maxContext is the most tokens of a context: positions have 32 bits, and what a cache takes is counted in 64.
const maxContext = 1 << 30

// check refuses settings that mean nothing.
func (o Options) check() error {
	switch {
	case o.Threads < 0:
		return fmt.Errorf("ridge: Threads is %d; 0 (all) or more is possible", o.Threads)
	case o.Deterministic && device.OnGPU(o.Backend):
		return errors.New("ridge: Deterministic is set and Backend is a GPU, whose sums depend on how many rows a step has; take the CPU, or leave Deterministic out")
	case o.Context < 0 || o.Context > maxContext:
		return fmt.Errorf("ridge: Context (--ctx) is %d; 0 (the model's) to %d is possible", o.Context, maxContext)
	case o.StepTokens < 0 || o.StepTokens > maxStepTokens:
		return fmt.Errorf("ridge: a step of %d tokens (--max-num-batched-tokens); 0 (%d) to %d is possible", o.StepTokens, device.StepTokens(o.Backend), maxStepTokens)
	case o.Swap < 0:
		return fmt.Errorf("ridge: Swap (--swap-space) is %d bytes; 0 (none) or more is possible", o.Swap)
	case o.Parallel < 0 || o.Parallel > o.stepTokens():
		return fmt.Errorf("ridge: Parallel (--max-num-seqs) is %d and a step has %d tokens, one at least for each; 0 (%d) to %d is possible", o.Parallel, o.stepTokens(), defaultParallel, o.stepTokens())
	case o.Pooling != "" && o.Pooling != PoolLast && o.Pooling != PoolMean && o.Pooling != PoolCLS:
		return fmt.Errorf("ridge: Pooling is %q; last, mean and cls are possible", o.Pooling)
	}
	if err := pass.CheckAdapters(o.adapters()); err != nil {
		return fmt.Errorf("ridge: MaxLoRAs (--max-loras) and MaxLoRARank (--max-lora-rank): %w", err)
	}
	if o.MaxCPULoRAs < 0 || o.MaxCPULoRAs > 0 && o.MaxCPULoRAs < o.MaxLoRAs {
		return fmt.Errorf("ridge: MaxCPULoRAs (--max-cpu-loras) is %d; 0 (the default) or at least MaxLoRAs, %d, is possible", o.MaxCPULoRAs, o.MaxLoRAs)
	}
	if _, err := pass.OnLoadFormat(o.Quantization, graph.F32); err != nil {
		return fmt.Errorf("ridge: Quantization (--quantization): %w", err)
	}
	if err := o.Speculation.check(); err != nil {
		return err
	}
	if err := o.EarlyExit.check(o); err != nil {
		return err
	}
	if err := o.Layout.check(o); err != nil {
		return err
	}
	if err := o.GPULayers.Check(o.Backend, o.Layout); err != nil {
		return err
	}
	if err := o.CPUExperts.Check(o.Backend, o.Layout, o.GPULayers); err != nil {
		return err
	}
	if err := o.GPULayers.check(o); err != nil {
		return err
	}
	if err := o.ExpertCache.check(o); err != nil {
		return err
	}
	if err := o.Ranks.check(o.Layout, o.Backend); err != nil {
		return err
	}
	if err := o.KVOffload.check(o); err != nil {
		return err
	}
	if err := o.KVTransfer.check(o); err != nil {
		return err
	}
	return o.KV.check()
}

// adapters is how many adapters of which rank steps may use.
func (o Options) adapters() pass.Adapters {
	if o.MaxLoRAs == 0 {
		return pass.Adapters{}
	}
	return pass.Adapters{Slots: o.MaxLoRAs, Rank: cmp.Or(o.MaxLoRARank, defaultLoRARank)}
}

// device is which device is asked for.
func (o Options) device() device.Options {
	return device.Options{Backend: o.Backend, Number: o.Ranks.Local, Transport: o.Ranks.GPUTransport(), Threads: o.Threads, Deterministic: o.Deterministic, Note: o.Note}
}

// itl is what prompts have to leave to the answers beside them: a time between two tokens, or how many times a step may take what its answers take alone; 0: none.
func (o Options) itl() (target time.Duration, ratio float64) {
	switch o.TargetITL {
	case 0:
		return 0, engine.DefaultITLRatio
	case NoTargetITL:
		return 0, 0
	}
	return o.TargetITL, 0
}

// engine are the settings of the engine that people choose.
func (o Options) engine() engine.Options {
	e := engine.Options{
		Policy: sched.Policy(o.Policy), Index: o.PrefixIndex, MaxWaiting: o.MaxWaiting, StepTokens: o.StepTokens,
		AgingBound: o.AgingBound, WaitingServedRatio: o.WaitingServedRatio,
	}
	e.TargetITL, e.ITLRatio = o.itl()
	e.CacheEvents = cacheEvents(o.CacheEvents)
	return e
}

// pageTokens is how many tokens a page of the cache has.
func (o Options) pageTokens() int {
	t, _ := device.CacheType(o.Backend, o.Cache) // the model's graph cannot be made of a wrong one
	return graph.PageTokens(t)
}

// limits is the size of steps and contexts; setPages says how many pages there are. whole says that a text is computed in one
// step, as encoders do it.
func (o Options) limits(trained int, whole bool) backend.Limits {
	context := o.Context
	if context == 0 {
		context = min(trained, defaultContext)
	}
	parallel := o.Parallel
	if parallel == 0 {
		parallel = min(defaultParallel, o.stepTokens())
	}
	pageSize := o.pageTokens()
	lim := backend.Limits{Tokens: o.stepTokens(), Seqs: parallel, Logits: max(parallel, min(promptRows, o.stepTokens())), PageSize: pageSize, Adapters: o.MaxLoRAs}
	lim.SeqPages = (context + pageSize - 1) / pageSize
	if o.Speculation.Method != "" {
		lim.Logits = min(parallel*(1+o.Speculation.most()), max(2*parallel, maxDraftRows))
	}
	if whole && o.StepTokens == 0 {
		lim.Tokens = max(lim.Tokens, lim.SeqPages*pageSize)
	}
	return lim
}
