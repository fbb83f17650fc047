package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ridge-llm/ridge/internal/loadgen"
	"github.com/ridge-llm/ridge/internal/loadgen/chart"
	"github.com/ridge-llm/ridge/internal/trace"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/tokenizer"
)

// benchServeFlags are the settings of bench serve.
type benchServeFlags struct {
	model     modelFlags
	trace     traceFlags
	load      loadgen.Options
	tokenizer string
	slo       string
	shared    int
	seed      int64
	asJSON    bool
	file      string
	plot      string
}

func benchServeCommand() *cobra.Command {
	var f benchServeFlags
	cmd := &cobra.Command{
		Use:   "serve [URL]",
		Short: "Measure latency and throughput of a server under load",
		Long: `Serve sends requests to a server and prints time to first token (TTFT), inter-token latency (ITL, between events as they arrive;
TPOT, average of a request), end-to-end latency, throughput, and goodput: the requests within the limits of --slo. It also prints
how late it was in sending.

URL is any server with OpenAI's API: Ridge, vLLM, llama-server. Without one, it serves --model itself (by default the built-in
model) and sends the requests over HTTP. OPENAI_API_KEY is sent as key, if it is set.

Requests are sent at the times of --trace, whether or not earlier ones have finished; with --concurrency, a new one is sent when one
finishes. Prompts are random common words of the trace's length in tokens; equal blocks of a Mooncake trace are equal text.`,
		Example: `  ridge bench serve --trace poisson:rate=8,n=200,in=200,out=64 --slo ttft=1s,itl=50ms
  ridge bench serve --concurrency 16 --trace constant:n=32,in=200,out=64 --shared-prefix 150 -m model.gguf
  ridge bench serve http://127.0.0.1:8080 --trace conversation_trace.jsonl --first 500 --shorter 32 --faster 4
  ridge bench serve -o report.json --plot report.png`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if f.model.path != "" {
					return errors.New("give either a URL or --model: a server at a URL has its own (--tokenizer names the model that tokens are counted with, --served-model-name the model to request)")
				}
				f.load.URL = args[0]
			}
			return f.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f.model.add(cmd)
	addEngine(cmd, &f.model.options)
	f.trace.add(cmd, "poisson:rate=4,n=100,in=200,out=64")
	fl := cmd.Flags()
	fl.StringVar(&f.load.Model, "served-model-name", "", "model to ask a URL for; default: the first that it lists")
	fl.StringVar(&f.tokenizer, "tokenizer", "", "model whose tokenizer counts prompt tokens; default: the server is asked")
	fl.BoolVar(&f.load.Chat, "chat", false, "send chat requests of one message instead of completions")
	fl.IntVar(&f.load.Concurrency, "concurrency", 0, "keep this many requests running and ignore the trace's arrival times; 0: use them")
	fl.IntVar(&f.shared, "shared-prefix", 0, "tokens of a prefix that all prompts share, part of their length")
	fl.StringVar(&f.slo, "slo", "", "latency limits for goodput: ttft, itl (95th percentile), tpot, e2e, such as ttft=1s,itl=50ms")
	fl.DurationVar(&f.load.Timeout, "timeout", 10*time.Minute, "timeout of a request")
	fl.Int64Var(&f.seed, "seed", -1, "seed of the prompts; with the same one a server may have them cached; -1: random")
	addJSON(fl, &f.asJSON)
	fl.StringVarP(&f.file, "output", "o", "", "write the report to this file too, as JSON")
	fl.StringVar(&f.plot, "plot", "", "draw TTFT, ITL and throughput to this file, .png or .svg")
	return cmd
}

func (f *benchServeFlags) run(ctx context.Context, out io.Writer) error {
	t, err := f.requests()
	if err != nil {
		return err
	}
	o := &f.load
	if f.slo != "" {
		if o.SLO, err = loadgen.ParseSLO(f.slo); err != nil {
			return err
		}
	}
	if f.plot != "" {
		if err := chart.Check(f.plot); err != nil {
			return err
		}
	}
	if o.Seed = uint64(f.seed); f.seed < 0 {
		o.Seed = rand.Uint64()
	}
	o.Key = os.Getenv("OPENAI_API_KEY")
	o.Note = func(format string, args ...any) { fmt.Fprintf(os.Stderr, "ridge: "+format+"\n", args...) }
	if term.IsTerminal(int(os.Stderr.Fd())) {
		o.Progress = func(sent, done int) {
			fmt.Fprintf(os.Stderr, "\r%d of %d sent, %d answered ", sent, len(o.Trace.Requests), done)
		}
	}
	o.Trace = t
	stop, err := f.target(ctx)
	if err != nil {
		return err
	}
	defer stop()
	r, err := loadgen.Run(ctx, *o)
	if err != nil {
		return err
	}
	if o.Progress != nil {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
	return f.report(out, r)
}

// requests is the trace with the shared prefix that was asked for.
func (f *benchServeFlags) requests() (*trace.Trace, error) {
	t, err := f.trace.load()
	if err != nil || f.shared == 0 {
		return t, err
	}
	if f.shared < 0 || f.shared > trace.MaxTokens {
		return nil, fmt.Errorf("--shared-prefix is %d; 0 to %d is possible", f.shared, trace.MaxTokens)
	}
	t.Shared = f.shared
	return t, nil
}

// target makes sure that there is a server, and a way to count its tokens; stop ends what it started.
func (f *benchServeFlags) target(ctx context.Context) (stop func(), err error) {
	o := &f.load
	if o.URL != "" {
		if f.tokenizer == "" {
			return func() {}, nil
		}
		o.Count, err = counter(f.tokenizer)
		return func() {}, err
	}
	f.model.options.Warm = true
	m, err := f.model.load(ctx)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		m.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		s := server.New(m, server.Options{})
		load := func() (server.Site, error) { return s, nil }
		if err := server.NewFront(slog.New(slog.DiscardHandler)).ServeLoading(ctx, l, load, func() { close(ready) }); err != nil {
			o.Note("the server: %v", err)
		}
	}()
	select { // before that it tells clients to come again
	case <-ready:
	case <-ended:
	}
	o.URL = "http://" + l.Addr().String()
	o.Count = func(_ context.Context, text string) (int, error) {
		ids, err := m.Encode(text, true)
		return len(ids), err
	}
	return func() {
		cancel()
		<-ended
		m.Close()
	}, nil
}

// counter counts tokens as a model on this machine does.
func counter(path string) (loadgen.Counter, error) {
	tok, err := openTokenizer(path)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, text string) (int, error) {
		ids, err := tok.Encode(text, tokenizer.Options{Special: true})
		return len(ids), err
	}, nil
}

// report prints the report and writes the files that were asked for. Lost requests make the command fail.
func (f *benchServeFlags) report(out io.Writer, r *loadgen.Report) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if f.asJSON {
		_, err = out.Write(data)
	} else {
		err = r.Print(out)
	}
	if err != nil {
		return err
	}
	if f.file != "" {
		if err := os.WriteFile(f.file, data, 0o666); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
	}
	if f.plot != "" {
		if err := chart.Write(r, f.plot); err != nil {
			return fmt.Errorf("--plot: %w", err)
		}
	}
	if r.Lost() > 0 {
		return errFailed
	}
	return nil
}
