package ridge

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/cuda"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
)

// Options says how to run a model. The zero value is a good choice.
type Options struct {
	Backend  string         // cpu, cuda, cuda:1 (the second GPU), or ref (slow, the definition of what is right); "" is cpu
	Threads  int            // CPU threads; 0: as many as the process may use
	Context  int            // longest prompt and answer together, in tokens; 0: the model's own, 8192 at most
	Parallel int            // requests that run at once; 0: 8
	Cache    string         // type of cached keys and values: f16, bf16, f32, int8, or on a GPU fp8; "" is f16
	KV       Budget         // memory for them
	Swap     int64          // bytes of host memory to which preempted requests may move their part of it; 0: they are computed again
	Template string         // chat template to use in place of the model's own; "": its own
	Pooling  string         // what an embedding is made of: PoolLast, PoolMean or PoolCLS; "": what the model's files say, or else PoolLast, of an encoder PoolMean
	Engine   engine.Options // of its queue, steps and index
	Profile  *price.Profile // of the device, for pricing steps; nil: what ridge calibrate kept of it, or a guess

	// Quantization quantises matrices in F32, F16 or BF16 to eight or four bits on load: "fp8", "int8" or "int4"; ""
	// leaves them. See docs/quantization.md for what that costs in precision and where it is fast.
	Quantization string

	// Deterministic makes an answer on the CPU independent of the requests beside it, to the last bit, whatever its weights'
	// format; see cpu.Options.
	Deterministic bool

	// Warm has Load do what the device would otherwise do in the first steps, on the CPU the packing of weights and, beside the
	// first requests, finding memory for the cache: the first token comes later, and no step takes longer than those after it.
	Warm bool

	Note func(text string) // is told what loading waits for where that takes long, perhaps by another goroutine; nil: nobody is
}

// How Model.Embed makes one vector of a text: models trained for embeddings say which they were trained with.
const (
	PoolLast = "last" // the hidden state of the last token; beginnings of texts are shared through the cache
	PoolMean = "mean" // the mean over all tokens
	PoolCLS  = "cls"  // the hidden state of the first token, which encoders put before a text for that
)

const (
	defaultContext  = 8192
	defaultParallel = 8
	pageSize        = 16 // tokens
	maxStepTokens   = 1 << 16
)

// StepTokens is how many rows a step may have, at most: what a chunk of a long prompt is. It is Engine.StepTokens, or where that is 0, 512 on
// the CPU and 2,048 on a GPU, which needs more of them to be busy.
func (o Options) StepTokens() int {
	switch {
	case o.Engine.StepTokens > 0:
		return o.Engine.StepTokens
	case o.onGPU():
		return 2048
	}
	return 512
}

// check refuses settings that mean nothing.
func (o Options) check() error {
	switch {
	case o.Threads < 0:
		return fmt.Errorf("ridge: Threads is %d; 0 (all) or more is possible", o.Threads)
	case o.Deterministic && o.onGPU():
		return errors.New("ridge: Deterministic is set and Backend is a GPU, whose sums depend on how many rows a step has; take the CPU, or leave Deterministic out")
	case o.Context < 0:
		return fmt.Errorf("ridge: Context (--ctx) is %d; 0 (the model's) or more is possible", o.Context)
	case o.Engine.StepTokens < 0 || o.Engine.StepTokens > maxStepTokens:
		return fmt.Errorf("ridge: a step of %d tokens (--max-num-batched-tokens); 0 (%d) to %d is possible", o.Engine.StepTokens, Options{Backend: o.Backend}.StepTokens(), maxStepTokens)
	case o.Swap < 0:
		return fmt.Errorf("ridge: Swap (--swap-space) is %d bytes; 0 (none) or more is possible", o.Swap)
	case o.Parallel < 0 || o.Parallel > o.StepTokens():
		return fmt.Errorf("ridge: Parallel (--max-num-seqs) is %d and a step has %d tokens, one at least for each; 0 (%d) to %d is possible", o.Parallel, o.StepTokens(), defaultParallel, o.StepTokens())
	case o.Pooling != "" && o.Pooling != PoolLast && o.Pooling != PoolMean && o.Pooling != PoolCLS:
		return fmt.Errorf("ridge: Pooling is %q; last, mean and cls are possible", o.Pooling)
	}
	if _, err := pass.OnLoadFormat(o.Quantization, graph.F32); err != nil {
		return fmt.Errorf("ridge: Quantization (--quantization): %w", err)
	}
	return o.KV.check()
}

// Device opens the device that the options choose.
func (o Options) Device() (backend.Device, error) {
	switch o.Backend {
	case "", "cpu":
		return opened(cpu.New(cpu.Options{Threads: o.Threads, Tier: os.Getenv("RIDGE_CPU"), Deterministic: o.Deterministic}))
	case "ref":
		return ref.New(), nil
	}
	if !o.onGPU() {
		return nil, fmt.Errorf("ridge: Backend (--backend) is %q; cpu, cuda (cuda:1 is the second GPU) and ref are possible", o.Backend)
	}
	ordinal, err := o.gpu()
	if err != nil {
		return nil, err
	}
	return opened(cuda.New(cuda.Options{Ordinal: ordinal, Note: o.Note}))
}

// onGPU reports whether the backend is a GPU: cuda, or cuda:1.
func (o Options) onGPU() bool { return o.Backend == "cuda" || strings.HasPrefix(o.Backend, "cuda:") }

// gpu is which GPU, as CUDA counts them.
func (o Options) gpu() (int, error) {
	number, given := strings.CutPrefix(o.Backend, "cuda:")
	if !given {
		return 0, nil
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("ridge: Backend (--backend) is %q; behind cuda: belongs the number of a GPU, from 0 (ridge devices lists them)", o.Backend)
	}
	return n, nil
}

// opened makes no backend.Device of a device that could not be opened: a nil pointer in it would not be nil.
func opened[D backend.Device](dev D, err error) (backend.Device, error) {
	if err != nil {
		return nil, err
	}
	return dev, nil
}

// CacheType is the type of cached keys and values.
func (o Options) CacheType() (graph.Type, error) {
	switch o.Cache {
	case "", "f16":
		return graph.F16, nil
	case "bf16":
		return graph.BF16, nil
	case "f32":
		return graph.F32, nil
	case "int8":
		return graph.I8, nil
	case "fp8":
		if o.Backend == "" || o.Backend == "cpu" {
			return 0, errors.New("ridge: Cache (--kv-type) is fp8, which the CPU has no kernels for; int8 takes as much memory and loses less")
		}
		return graph.F8, nil
	}
	return 0, fmt.Errorf("ridge: Cache (--kv-type) is %q; f16, bf16, f32, int8 and fp8 are possible", o.Cache)
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
		parallel = min(defaultParallel, o.StepTokens())
	}
	lim := backend.Limits{Tokens: o.StepTokens(), Seqs: parallel, Logits: parallel, PageSize: pageSize}
	lim.SeqPages = (context + pageSize - 1) / pageSize
	if whole && o.Engine.StepTokens == 0 {
		lim.Tokens = max(lim.Tokens, lim.SeqPages*pageSize)
	}
	return lim
}
