package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/calibrate"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/loadgen"
	"github.com/ridge-llm/ridge/internal/loadgen/chart"
	"github.com/ridge-llm/ridge/internal/simulate"
	"github.com/ridge-llm/ridge/internal/size"
	"github.com/ridge-llm/ridge/internal/trace"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
	"github.com/ridge-llm/ridge/price/capacity"
	"github.com/ridge-llm/ridge/route/policy"
)

// simulateFlags are the settings of simulate.
type simulateFlags struct {
	shape    modelShapeFlags
	device   string
	tensor   int
	pipeline int
	sequence int
	expert   int
	data     int
	method   string
	trace    traceFlags
	shared   int
	slo      string
	kvTokens int
	swap     int64 // bytes of host memory
	limits   capacity.Limits
	options  simulate.Options
	slots    int // for adapters; 0: as ridge serve has them
	against  string
	target   time.Duration // ridge.Options.TargetITL
	sweep    bool
	learn    []string
	accept   float64 // synthetic acceptance rate; -1: nothing is drafted
	drafts   int     // tokens of a draft
	always   bool
	replicas simulate.Replicas
	route    string // policy of the router before them
	apart    simulate.Apart
	link     float64 // GB/s; 0: the device's
	asJSON   bool
	plot     string

	measured *loadgen.Report // of --against
	renew    []func() error  // reset state that a simulation changes, before each one
}

// run simulates, with prompts in chunks that keep to a target by price, or else to a ratio, or that fill steps of so many tokens; 0: not, and the most tokens.
func (f *simulateFlags) run(target time.Duration, ratio float64, stepTokens int) (*simulate.Result, error) {
	for _, renew := range f.renew {
		if err := renew(); err != nil {
			return nil, err
		}
	}
	o := f.options
	o.Engine.TargetITL, o.Engine.ITLRatio, o.Engine.StepTokens = target, ratio, stepTokens
	if f.replicas.Count > 1 || f.replicas.Apart != nil {
		p, err := policy.New(f.route)
		if err != nil {
			return nil, fmt.Errorf("--route: %s", strings.TrimPrefix(err.Error(), "policy: "))
		}
		f.replicas.Policy = p
		return simulate.RunReplicas(o, f.replicas)
	}
	return simulate.Run(o)
}

func simulateCommand() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate [MODEL]",
		Short: "Simulate serving a trace, in virtual time",
		Long: `Simulate runs the serving engine (scheduler, page pool, prefix index, admission) on a device that computes nothing and
takes the predicted time of each step, so that hours of traffic are simulated in seconds. It prints the same report as
ridge bench serve.

--against compares with a report that ridge bench serve --json wrote of a real run of the same trace. Requests arrive at the times
of that run. The command fails if throughput differs by more than 10 %, or the median or 95th percentile of TTFT or ITL by more
than 20 %. Page faults of a server's first steps are not simulated.

--target-itl limits prefill chunks to the size that keeps the predicted step time under the target, as ridge serve does, by default under five times what
a step takes without them (with --tp, which predicts no steps, chunks fill the step); --sweep
compares that with every fixed chunk size (--max-num-batched-tokens). It fails if the predicted sizes miss the target at the 99th
percentile of ITL, or reach less than 95 % of the throughput of the best fixed size that meets it.

--speculate simulates speculative decoding with a synthetic acceptance: each token of a draft is accepted with this probability, whatever the model, and
drafting takes no time. How many tokens are drafted is decided by price, as ridge serve does, up to --draft-max; --draft-always drafts as many
in every step.

--loras gives the requests so many LoRA adapters in turn, of which --max-loras are on the device at once. Loading one takes no time, since it goes on beside
steps. A recording knows the adapters of its requests; to learn from one, give the simulation adapters too.

--learn fits step times to a recording (ridge serve --record, any requests to the same model): each step takes its fitted prediction
times an error that recorded steps of similar cost had. Steps of a server are slower than the same steps alone, since HTTP
connections use the CPU too. The flag may be repeated.

--replicas puts a router before several such servers, with the choice of ridge route. --prefill puts servers that compute prompts beside them (ridge serve --role), from
which pages cross over --kv-link while a prompt is being computed.

MODEL is as for ridge plan: no weights are needed; without it, it is the built-in model. --device is a published device, a profile file, or here (this
machine as ridge calibrate measured it).`,
		Example: `  ridge simulate llama-3.1-8b --device h200 --trace conversation_trace.jsonl --first 1000 --slo ttft=2s,itl=50ms
  ridge simulate llama-3.1-8b --device h200 --trace poisson:rate=20,n=2000,in=512,out=256 --policy longest-prefix
  ridge simulate llama-3.1-8b --device h200 --concurrency 8 --trace constant:n=64,in=512,out=256 --speculate 0.8
  ridge simulate llama-3.1-8b --device h200 --trace conversation_trace.jsonl --replicas 4 --route cache_aware --kv-tokens 250000
  ridge simulate llama-3.1-8b --device h200 --trace poisson:rate=40,n=2000,in=2048,out=256 --prefill 2 --replicas 2 --slo ttft=1s,itl=20ms
  ridge simulate llama-3.1-8b --device h200 --concurrency 64 --trace constant:n=256,in=512,out=256 --loras 100 --max-loras 16
  ridge simulate model.gguf --device here --concurrency 16 --trace constant:n=32,in=200,out=64`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			f.options.Stop = cmd.Context().Done()
			defer func() {
				if errors.Is(err, simulate.ErrStopped) {
					err = cmd.Context().Err()
				}
			}()
			m, err := f.prepare(strings.Join(args, ""))
			if err != nil {
				return err
			}
			if err := f.setUp(cmd.Context(), m); err != nil {
				return err
			}
			if f.sweep {
				return f.runSweep(cmd.OutOrStdout())
			}
			r, err := f.run(f.options.Engine.TargetITL, f.options.Engine.ITLRatio, 0)
			if err != nil {
				return err
			}
			return f.report(cmd.OutOrStdout(), r)
		},
	}
	f.add(cmd)
	return cmd
}

func (f *simulateFlags) add(cmd *cobra.Command) {
	f.shape.add(cmd)
	f.trace.add(cmd, "poisson:rate=4,n=500,in=512,out=128")
	fl, e := cmd.Flags(), &f.options.Engine
	fl.StringVar(&f.device, "device", "here", "device: a published one, a file with a profile, or here")
	fl.IntVar(&f.tensor, "tp", 1, "tensor parallelism: devices that share every layer")
	fl.IntVar(&f.pipeline, "pp", 1, "pipeline parallelism: stages, each with a range of the layers, of which each is at a step of its own")
	addSequence(fl, &f.sequence, &f.method)
	fl.IntVar(&f.expert, "ep", 1, "expert parallelism: devices of --tp, or all of --tp × --sp or --tp × --dp, among which the experts of each layer are divided")
	fl.IntVar(&f.data, "dp", 1, "data-parallel attention: replicas of all but the experts, each with requests of its own; experts are divided among all of --tp × --dp")
	fl.IntVar(&f.options.Concurrency, "concurrency", 0, "keep this many requests running and ignore the trace's arrival times; 0: use them")
	fl.IntVar(&f.shared, "shared-prefix", 0, "tokens of a prefix that all prompts share, part of their length")
	addPolicy(fl, &e.Policy, sched.FCFS)
	fl.StringVar(&e.Index, "prefix-index", "radix", "prefix cache index: radix, hash, or none")
	fl.IntVar(&e.MaxWaiting, "max-waiting", 0, "longest queue; further requests are refused; 0: 4096")
	fl.IntVar(&f.limits.StepTokens, "max-num-batched-tokens", 0, "most tokens of a step; 0: 512, on each device of --sp or --dp")
	fl.IntVar(&f.limits.Sequences, "parallel", 64, "most requests that run at once")
	fl.IntVar(&f.limits.Context, "ctx", 0, "longest prompt and answer together; 0: the model's, at most 8192 or the longest request of the trace")
	fl.IntVar(&f.kvTokens, "kv-tokens", 0, "tokens of cache; 0: as many as fit, at most enough for all requests at their longest")
	fl.Var((*swapFlag)(&f.swap), "swap-space", "GiB of host memory for the pages of preempted requests; 0: they are recomputed")
	fl.Float64Var(&f.limits.Utilization, "gpu-memory-utilization", 0.9, "part of a device's memory that may be used")
	fl.StringVar(&f.slo, "slo", "", "latency limits for goodput: ttft, itl (95th percentile), tpot, e2e, such as ttft=1s,itl=50ms")
	fl.Var((*targetFlag)(&f.target), "target-itl", "ITL that prefill chunks must leave to decoding requests, such as 50ms; default: 4 times what a step takes with those alone; 0: chunks fill the step")
	fl.BoolVar(&f.sweep, "sweep", false, "with --target-itl, compare predicted chunk sizes with every fixed size")
	fl.StringArrayVar(&f.learn, "learn", nil, "fit step times to this recording of ridge serve --record, of the same model and device")
	fl.StringVar(&f.against, "against", "", "compare with a report that ridge bench serve --json wrote; --trace and engine settings must be those of that run")
	fl.Float64Var(&f.accept, "speculate", -1, "speculative decoding with this synthetic acceptance rate of a drafted token, 0 to 1")
	fl.IntVar(&f.drafts, "draft-max", 5, "with --speculate, most tokens of a draft")
	fl.BoolVar(&f.always, "draft-always", false, "with --speculate, draft --draft-max tokens in every step")
	fl.IntVar(&f.options.Adapters.Count, "loras", 0, "LoRA adapters that the requests have in turn, of every matrix; 0: none")
	fl.IntVar(&f.options.Adapters.Rank, "rank", 16, "rank of each of --loras")
	fl.IntVar(&f.slots, "max-loras", 0, "with --loras, how many are on the device at once; 0: all, and 64 at most")
	fl.IntVar(&f.replicas.Count, "replicas", 1, "servers behind a router, each with its own device and memory")
	fl.StringVar(&f.route, "route", policy.Names()[0], "with --replicas, how the router chooses (as ridge route --policy): "+strings.Join(policy.Names(), ", "))
	fl.BoolVar(&f.replicas.Events, "kv-events", false, "with --replicas, the router knows what each has cached, not only what it sent there")
	fl.IntVar(&f.apart.Prefill, "prefill", 0, "servers that compute prompts, each with its own device, from which --replicas go on")
	fl.IntVar(&f.apart.From, "prefill-from", 256, "with --prefill, tokens of a prompt from which on one of those servers computes it")
	fl.Float64Var(&f.link, "kv-link", 0, "with --prefill, GB/s from each of those servers to the replicas; 0: the device's link")
	addJSON(fl, &f.asJSON)
	fl.StringVar(&f.plot, "plot", "", "draw TTFT, ITL and throughput to this file, .png or .svg")
}

// prepare reads the flags, the trace and the model's configuration.
func (f *simulateFlags) prepare(arg string) (*model.Model, error) {
	if err := f.shape.parse(); err != nil {
		return nil, err
	}
	if f.plot != "" {
		if err := chart.Check(f.plot); err != nil {
			return nil, err
		}
	}
	var err error
	if f.slo != "" {
		if f.options.SLO, err = loadgen.ParseSLO(f.slo); err != nil {
			return nil, err
		}
	}
	if f.options.Trace, err = f.trace.load(); err != nil {
		return nil, err
	}
	if f.shared < 0 || f.shared > trace.MaxTokens {
		return nil, fmt.Errorf("--shared-prefix is %d; 0 to %d is possible", f.shared, trace.MaxTokens)
	}
	f.options.Trace.Shared = f.shared
	if f.against != "" {
		if err := f.compareWith(); err != nil {
			return nil, err
		}
	}
	f.options.Name = cmp.Or(arg, "the built-in model") + " on " + f.device
	if f.accept != -1 {
		f.renew = append(f.renew, f.draft)
	}
	return f.shape.model(arg)
}

// draft sets a synthetic drafter up.
func (f *simulateFlags) draft() error {
	d, err := draft.NewSynthetic(f.accept, nil)
	f.options.Engine.Speculation = engine.Speculation{Drafter: d, Tokens: f.drafts, Always: f.always}
	return err
}

// compareWith reads the report to compare with, and makes the trace what that run sent.
func (f *simulateFlags) compareWith() (err error) {
	if f.measured, err = loadgen.ReadReport(f.against); err != nil {
		return err
	}
	f.options.Concurrency = f.measured.Concurrency
	f.options.Trace, err = simulate.AsSent(f.options.Trace, f.measured)
	return err
}

// setUp prices the model's steps on the device and computes the number of cache pages.
func (f *simulateFlags) setUp(ctx context.Context, m *model.Model) error {
	p, err := profileNamed(ctx, f.device)
	if err != nil {
		return err
	}
	p = p.Greedy() // as ridge bench serve asks
	g, err := f.shape.graph(m, p.ActType())
	if err != nil {
		return err
	}
	o, err := f.shape.passes(p)
	if err != nil {
		return err
	}
	if o.Adapters, err = f.adapters(); err != nil {
		return err
	}
	if f.limits.StepTokens == 0 {
		f.limits.StepTokens = 512 * max(f.sequence, f.data, 1)
	}
	if f.limits.Context == 0 {
		f.limits.Context = min(m.Config.Context, f.longest())
	}
	if err := (ridge.Layout{Tensor: f.tensor, Pipeline: f.pipeline, Expert: f.expert, Data: f.data, Sequence: f.sequence}).Check(); err != nil {
		return err
	}
	l := passLayout(ridge.Layout{Tensor: f.tensor, Pipeline: max(f.pipeline, 1), Expert: f.expert, Data: f.data})
	if f.sequence > 1 {
		l.Sequence, l.Method = f.sequence, f.method
	} else if f.sequence < 1 || f.method != "" {
		return fmt.Errorf("--sp %d; 1 or more is possible, and 2 or more with --sp-method", f.sequence)
	}
	s, err := capacity.New(g, p, l, f.limits, pass.All, o)
	if err != nil {
		return err
	}
	f.options.Cost = s.Seconds
	if f.pipeline > 1 {
		f.options.Stages, f.options.RunsAhead = s.StageSeconds, false
		if f.replicas.Count > 1 || f.apart.Prefill > 0 {
			return errors.New("--pp is for one server; leave --replicas and --prefill out")
		}
	}
	devices := s.Layout.Devices()
	if devices > 1 && (f.target > 0 || len(f.learn) > 0 || f.accept != -1) {
		return errors.New("--target-itl, --learn and --speculate are for one device; leave --tp, --pp, --sp and --dp out")
	}
	if g, err = pass.Run(g, pass.All, o); err != nil {
		return err
	}
	switch e := &f.options.Engine; {
	case f.target > 0:
		e.TargetITL = f.target
	case f.target == 0 && devices == 1:
		e.ITLRatio = engine.DefaultITLRatio
	}
	if f.options.Engine.TargetITL > 0 || f.options.Engine.ITLRatio > 0 || f.accept != -1 {
		f.predictBy(g, p)
	}
	if len(f.learn) > 0 {
		if err := f.learnFrom(g, p); err != nil {
			return err
		}
	}
	page := graph.PageTokens(f.shape.kvType) * s.Layout.PageRanks()
	lim := backend.Limits{Tokens: f.limits.StepTokens, Seqs: f.limits.Sequences, Logits: f.limits.Sequences, PageSize: page, Adapters: o.Adapters.Slots}
	lim.SeqPages = (f.limits.Context + page - 1) / page
	lim.Pages = int(min(s.CacheTokens()/int64(page), int64(lim.SeqPages)*int64(lim.Seqs)))
	switch {
	case f.kvTokens < 0:
		return fmt.Errorf("--kv-tokens is %d; 0 (what fits) or more is possible", f.kvTokens)
	case f.kvTokens > 0:
		lim.Pages = f.kvTokens / page
	}
	if lim.Pages < 1 {
		if err := s.Fits(1, page); err != nil {
			return fmt.Errorf("simulate: there is no room for a page of cache: %w", err)
		}
		return fmt.Errorf("--kv-tokens is %d; a page of the cache has %d", f.kvTokens, page)
	}
	if f.accept != -1 {
		lim.Logits = lim.Seqs * (1 + max(f.drafts, 1))
	}
	f.setSwap(&lim, p, s.Memory.CacheToken*int64(page))
	f.sharePages(&lim, g)
	if s.Layout.OwnSequences() {
		if f.replicas.Count > 1 || f.apart.Prefill > 0 {
			return errors.New("--dp is for one server whose pages stay on their devices; leave --replicas and --prefill out")
		}
		lim.Times(s.Layout.Data)
	}
	f.options.Limits = lim
	return f.setApart(p, g, s)
}

// setApart sets servers that compute prompts up.
func (f *simulateFlags) setApart(p *price.Profile, g *graph.Graph, s *capacity.Setup) error {
	a := &f.apart
	switch {
	case a.Prefill == 0 && f.link == 0:
		return nil
	case a.Prefill < 1 || a.From < 0 || f.link < 0:
		return fmt.Errorf("--prefill is %d, --prefill-from %d and --kv-link %g; 1 server or more, 0 tokens or more and, for the device's link, 0 GB/s or more are possible", a.Prefill, a.From, f.link)
	case f.sweep || f.against != "" || f.accept != -1:
		return errors.New("--sweep, --against and --speculate are for servers that compute their own prompts; leave --prefill out")
	}
	if a.Link, a.Lag = 1e9*f.link, p.LinkLag; f.link == 0 {
		if a.Link = p.Link; p.Link == 0 {
			return fmt.Errorf("--prefill: of %s no link to other devices is known; say how fast it is (--kv-link)", p.Name)
		}
	}
	devices := int64(s.Layout.Devices())
	for _, c := range g.CacheGroups() {
		if c.Recurrent {
			a.State += c.PageBytes(f.options.Limits.PageSize)
		} else {
			a.Token += c.RowBytes()
		}
	}
	a.Link *= float64(devices) // each sends its part
	a.Limits = f.options.Limits
	if most := a.Limits.SeqPages * a.Limits.PageSize; most > a.Limits.Tokens {
		a.Limits.Tokens = most
	}
	a.Limits.Groups = nil
	f.sharePages(&a.Limits, g)
	f.replicas.Apart = a
	return nil
}

// longest is the default context: that of ridge serve, or the longest request of the trace, which a server to compare with
// may have refused.
func (f *simulateFlags) longest() int {
	most := 8192
	if f.against == "" {
		for _, r := range f.options.Trace.Requests {
			most = max(most, r.Input+r.Output)
		}
	}
	return most
}

// sharePages divides the cache's memory between keys and values and, in a hybrid, states to go on from, as ridge serve does.
func (f *simulateFlags) sharePages(lim *backend.Limits, g *graph.Graph) {
	p, times := backend.NewPaging(g, lim), 1
	if slices.ContainsFunc(g.Caches, (*graph.Cache).Recurrent) {
		times = backend.PrefixCache
		if pages := p.Fit(p.Bytes(lim.Pages, 1), times); f.kvTokens == 0 && pages >= lim.SeqPages {
			lim.Pages = pages
		}
	}
	p.Share(lim, times)
	lim.StatePages = p.StatePages()
}

// setSwap gives preempted requests their space in host memory, for pages of so many bytes.
func (f *simulateFlags) setSwap(lim *backend.Limits, p *price.Profile, page int64) {
	if f.swap > 0 && page > 0 {
		lim.SwapPages = int(min(f.swap/page, math.MaxInt32/int64(lim.PageSize)))
		f.options.Engine.SwapPage = time.Duration(1e9 * p.Swap(page))
	}
}

// profileNamed is a published device, the profile in a file, or what was measured of this machine.
func profileNamed(ctx context.Context, name string) (*price.Profile, error) {
	return profileOn(ctx, name, device.Options{})
}

// profileOn is profileNamed, where this machine is the device that the options choose.
func profileOn(ctx context.Context, name string, o device.Options) (*price.Profile, error) {
	switch {
	case strings.HasSuffix(name, ".json"):
		return price.ReadProfile(name)
	case name != "here":
		return price.Device(name)
	}
	dev, err := device.Open(o)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	return calibrate.Profile(ctx, dev, func(what string) { fmt.Fprintln(os.Stderr, "ridge:", what) })
}

// report prints the results.
func (f *simulateFlags) report(out io.Writer, r *simulate.Result) error {
	if f.plot != "" {
		if err := chart.Write(r.Report, f.plot); err != nil {
			return fmt.Errorf("--plot: %w", err)
		}
	}
	if f.measured != nil {
		r.Compared = simulate.Compare(f.measured, r.Report)
	}
	if f.asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	if err := r.Report.Print(out); err != nil {
		return err
	}
	s := &r.Stats
	_, err := fmt.Fprintf(out, "%d steps, busy %.0f %% of the time; %d preemptions; %.1f %% of prompt tokens found in the cache of %d tokens, %d pages evicted and reused\n"+
		"simulated in %.2f s, %.0f times as fast as real time\n",
		s.Steps, 100*r.Busy, s.Preemptions, 100*float64(s.Found)/float64(max(s.Queried, 1)), s.Pages*s.PageSize, s.Evicted, r.Real, r.Faster)
	if err == nil && f.pipeline > 1 {
		_, err = fmt.Fprintf(out, "bubbles: each of %d stages waits for others, or for requests, %.0f %% of the time\n", f.pipeline, 100*(1-r.Busy))
	}
	if p := r.Prefill; err == nil && p != nil {
		_, err = fmt.Fprintf(out, "%d servers for prompts, busy %.0f %% of the time, computed %d; %s crossed, there %.1f ms after the prompt in the mean\n",
			len(p.Servers), 100*p.Busy, p.Prompts, size.Text(p.Moved), float64(p.Waited)/1e6)
	}
	if err == nil && s.DraftMethod != "" {
		_, err = fmt.Fprintf(out, "%d drafts (%s, acceptance %g), %d of %d drafted tokens accepted; %.2f tokens per request and step\n",
			s.Drafts, s.DraftMethod, f.accept, s.AcceptedTokens, s.DraftTokens, float64(s.Output)/float64(max(s.Output-s.AcceptedTokens, 1)))
	}
	if err != nil || f.measured == nil {
		return err
	}
	fmt.Fprintln(out)
	kept, err := simulate.PrintComparison(out, r.Compared)
	if err == nil && !kept {
		err = errFailed
	}
	return err
}
