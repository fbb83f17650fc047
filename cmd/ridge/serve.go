package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/internal/regular"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/access"
	"github.com/ridge-llm/ridge/server/store"
)

// serveFlags are the settings of serve.
type serveFlags struct {
	model   modelFlags
	role    roleFlags
	lora    loraFlags
	cascade cascadeFlags
	accessFlags
	quota store.Quota
	many  manyFlags
	listenFlags
	logJSON  bool
	record   string
	kvEvents string // configuration in JSON
	of       string // the key whose requests the recording shows
	dataDir  string
	server   server.Options
}

func serveCommand() *cobra.Command {
	f := serveFlags{quota: store.Quota{Bytes: 16 << 30, Responses: 256 << 20, Kept: 10000}}
	cmd := &cobra.Command{
		Use:   "serve [MODEL ...]",
		Short: "Serve models over HTTP with the OpenAI API",
		Long: `Serve answers /v1/chat/completions, /v1/completions, /v1/messages (Anthropic's), /api/chat and /api/generate (Ollama's),
/v1/responses, /v1/embeddings, /api/embed, /api/pull, /api/copy and /api/delete (with --manage-models), /v1/rerank and /v1/score (of models that compare texts), /v1/files and /v1/batches (kept in --data-dir),
/v1/models, /v1/load_lora_adapter, /v1/unload_lora_adapter and /lora-adapters, /tokenize, /detokenize, /health, /version and /metrics (Prometheus); at / is a web page for chatting and
watching the engine. Requests are batched continuously, and common prefixes of their prompts are computed once.

After Ctrl-C or SIGTERM requests under way have --drain-timeout to finish; what is cut off then gets an error that says so, and the exit
code is 1. A second signal ends the server at once. SIGHUP has the keys, the certificate and, if its files have changed, the model read
again; requests under way end on the old one.

MODEL is a short name (ridge search), a GGUF file, a Hugging Face directory, or ORG/REPO[:QUANT] on the hub, which is downloaded if it is not here; without it, the small built-in model is served.

Several MODELs, --models-dir and --models-hub serve many models: requests name theirs, which is loaded when it is first asked for, beside others as far as there is memory, and
unloaded when it was not used for --keep-alive, or when another needs the room. /v1/models lists all, /api/ps those in memory. With --cascade
several models are: each answers what it is sure enough of and passes the rest on to the next (docs/cascades.md); the header X-Ridge-Model says who answered.`,
		Example: `  ridge serve
  ridge serve model.gguf --parallel 16
  ridge serve Qwen/Qwen3-0.6B-GGUF:Q8_0
  ridge serve --cascade small.gguf,large.gguf --cascade-threshold 0.8
  ridge serve qwen3:4b llama3.2:1b --pin qwen3:4b
  ridge serve --models-dir ./models --models-hub --keep-alive 10m
  ridge serve --models-hub --manage-models
  ridge serve model.gguf --host 0.0.0.0 --port 8000 --api-key SECRET
  ridge serve model.gguf --listen 0.0.0.0:8000 --api-key-file keys.txt
  curl http://127.0.0.1:8000/v1/chat/completions -d '{"messages": [{"role": "user", "content": "Hello"}]}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			leaves.Add(int64(f.server.Drain))
			if len(args) > 0 && f.model.path != "" {
				return errors.New("the model is named twice, as argument and with --model")
			}
			if f.many.asked(args) {
				f.many.names = args
				if f.model.path != "" {
					f.many.names = []string{f.model.path}
				}
			} else if len(args) == 1 {
				f.model.path = args[0]
			}
			if err := f.setAddress(cmd.Flags().Changed); err != nil {
				return err
			}
			return f.run(cmd)
		},
	}
	f.model.add(cmd)
	f.model.ranks.add(cmd.Flags())
	f.role.add(cmd.Flags())
	addEngine(cmd, &f.model.options)
	fl := cmd.Flags()
	f.lora.addServed(fl, &f.model.options)
	f.cascade.add(fl)
	f.listenFlags.add(fl, "127.0.0.1:8000")
	f.accessFlags.add(fl)
	f.many.add(fl)
	fl.StringVar(&f.server.Name, "served-model-name", "", "what clients call the model; default: the name of its file")
	fl.BoolVar(&f.server.OpenMetrics, "open-metrics", false, "answer /metrics without a key, for a Prometheus that has none")
	fl.BoolVar(&f.server.Shared, "share-between-keys", false, "let all keys see each other's files, batches and explanations, share cached prompts, and have a recording contain prompts")
	fl.BoolVar(&f.model.options.TrustContent, "trust-content", false, "let control tokens that messages, tool results and documents spell out act as tokens, as most servers do; whoever writes such a text can then forge turns")
	fl.BoolVar(&f.model.options.RefuseSystem, "refuse-system", false, "refuse system messages where the chat template has no system role; default: they become part of the user's first message")
	fl.StringArrayVar(&f.server.Hosts, "allow-host", nil, "name under which the server may be called without a key, beside localhost; can be given several times")
	fl.Var((*bytesFlag)(&f.quota.Bytes), "file-quota", "size of the files that each key, or all clients of a server without keys, may store")
	fl.Var((*bytesFlag)(&f.quota.Responses), "response-quota", "size of the responses (/v1/responses) that are kept of each key, or all clients of a server without keys; of more, the oldest are forgotten")
	fl.IntVar(&f.quota.Batches, "batch-quota", 100, "batches that each key, or all clients of a server without keys, may have waiting or under way; 0: any number")
	fl.StringArrayVar(&f.server.Origins, "cors", nil, "origin of web pages that may call from a browser, or *; can be given several times")
	fl.StringVar(&f.model.options.Pooling, "pooling", "", "what /v1/embeddings makes a vector of: last (token), mean or cls (the first token); default: what the model's files say, or else last, of an encoder mean")
	fl.StringVar(&f.dataDir, "data-dir", "", "folder for /v1/files, /v1/batches and the responses of /v1/responses, or off; default: ridge/server in the user's cache folder, if it can be used")
	fl.StringVar(&f.kvEvents, "kv-events-config", "", `publish what is cached, as vLLM does: JSON such as {"publisher": "zmq", "endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:5558", "topic": "kv@10.0.0.1:8000@model"}; the events contain prompts, for all who can connect`)
	fl.StringVar(&f.record, "record", "", "write all requests and scheduling decisions to this file, for ridge replay; the file contains the prompts, but with --api-key-file and not --share-between-keys other tokens in their places")
	fl.StringVar(&f.of, "record-of", "", "name of the key whose prompts and answers --record contains; of all other keys' requests it has what a replay needs, and none of their tokens")
	fl.DurationVar(&f.server.Drain, "drain-timeout", 30*time.Second, "longest time that requests under way have to finish after Ctrl-C or SIGTERM")
	fl.BoolVar(&f.logJSON, "log-json", false, "write the log as JSON")
	return cmd
}

// run serves until the command is told to stop.
func (f *serveFlags) run(cmd *cobra.Command) error {
	if err := f.cascade.check(f.model.path); err != nil {
		return err
	}
	if f.quota.Batches < 0 {
		return fmt.Errorf("--batch-quota is %d; 0 (any number of batches) or more is possible", f.quota.Batches)
	}
	if err := f.role.prepare(&f.model.options, f.many.serves()); err != nil {
		return err
	}
	f.lora.prepare(&f.model.options)
	if worked, err := f.model.work(cmd.Context()); worked || err != nil {
		return err
	}
	addProcessors(&f.model.options)
	var err error
	if f.server.Keys, err = f.readKeys(); err != nil {
		return err
	}
	if host, _, err := net.SplitHostPort(f.address); err == nil && host != "" {
		f.server.Hosts = append(f.server.Hosts, host)
	}
	if !f.noAuth {
		if err := server.CheckAddress(f.address, len(f.server.Keys)); err != nil {
			return err
		}
	}
	f.server.Log, f.server.Version = newLog(f.logJSON), thisBuild().Version
	// Before loading, which can take long: an address that is taken should be known at once.
	l, err := net.Listen("tcp", f.address)
	if err != nil {
		return err
	}
	defer l.Close()
	if l, err = f.secure(l); err != nil {
		return err
	}
	if f.server.Store, err = f.openStore(); err != nil {
		return err
	}
	if f.server.Store != nil {
		for _, d := range f.server.Store.Damaged() {
			f.server.Log.Warn("a damaged description was set aside, with the file or batch that it described", "path", d.Path, "error", d.Err)
		}
		f.server.Store.SetQuota(f.quota)
	}
	stop, err := f.openRecord()
	if err != nil {
		return err
	}
	defer stop()
	published, err := f.publishCache()
	if err != nil {
		return err
	}
	defer published()
	if f.server.Store != nil {
		defer f.server.Store.Close()
	}
	r := &reloading{flags: f, front: server.NewFront(f.server.Log)}
	if f.many.serves() {
		return f.runMany(cmd, r, l)
	}
	r.onHangup(cmd.Context())
	defer r.close()
	var announcement string
	return r.front.ServeLoading(cmd.Context(), l, func() (server.Site, error) {
		f.model.options.Warm = true
		s, m, err := r.load(cmd.Context())
		if err != nil {
			return nil, err
		}
		weights := ""
		if q := m.Quantization(); q != "" {
			weights = ", weights in " + q
		}
		announcement = fmt.Sprintf("ridge: serving %s on %s at %s://%s/v1, context %d tokens%s; page: %s\n", m.Name(), m.Device(), f.scheme(), l.Addr(), m.Context(), weights, f.page(l))
		return s, nil
	}, func() { fmt.Fprint(os.Stderr, announcement) })
}

// openStore opens the folder of files and batches. The default one is a convenience: without it the server has none.
func (f *serveFlags) openStore() (*store.Store, error) {
	switch f.dataDir {
	case "off":
		return nil, nil
	case "":
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, nil
		}
		dir := filepath.Join(cache, "ridge", "server")
		s, err := store.Open(dir)
		if err != nil {
			f.server.Log.Warn("there are no /v1/files and /v1/batches, and no responses are kept; choose a folder for them with --data-dir", "error", err)
			return nil, nil
		}
		return s, nil
	}
	return store.Open(f.dataDir)
}

// openRecord opens the file of --record, if there is one; stop closes it, after the model.
func (f *serveFlags) openRecord() (stop func(), err error) {
	hides := len(f.server.Keys) > 0 && !f.server.Shared
	if f.of != "" {
		switch {
		case f.record == "" || !hides:
			return nil, errors.New("--record-of is for --record with --api-key-file and without --share-between-keys; else a recording contains all requests or there is none")
		case !slices.ContainsFunc(f.server.Keys, func(k access.Key) bool { return k.Name == f.of }):
			return nil, fmt.Errorf("--record-of is %q, and no key in %s has that name", f.of, f.keyFile)
		}
	}
	if f.record == "" {
		return func() {}, nil
	}
	if err := regular.Check(f.record); err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	file, err := os.OpenFile(f.record, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	f.model.options.Record = file
	f.model.options.RecordHidden, f.model.options.RecordTenant = hides, f.of
	f.model.options.RecordFailed = func(err error) {
		f.server.Log.Error("the recording has stopped; the server goes on without it", "file", f.record, "error", err)
	}
	return func() {
		if err := file.Close(); err != nil {
			f.server.Log.Error("the recording is not complete", "file", f.record, "error", err)
		}
	}, nil
}
