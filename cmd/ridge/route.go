package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/internal/regular"
	"github.com/ridge-llm/ridge/route"
	"github.com/ridge-llm/ridge/route/policy"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/access"
)

// routeFlags are the settings of route.
type routeFlags struct {
	access accessFlags
	listenFlags
	reusePort  bool
	policy     string
	replicaKey string // file
	hosts      []string
	logJSON    bool
	router     route.Options
}

func routeCommand() *cobra.Command {
	var f routeFlags
	cmd := &cobra.Command{
		Use:   "route REPLICA...",
		Short: "Put one address before many servers",
		Long: `Route passes requests on to replicas: servers of Ridge's, vLLM's or others with their APIs, each named by its address and perhaps, after a comma, the endpoint
of its cache events (ridge serve --kv-events-config). Answers are streamed as they come; a
client that leaves ends its request at the replica.

With --policy cache_aware a request goes where its first token would come soonest: what waits at a replica, as it reports or as is priced from
what was sent there, and what is left of the prompt to compute after what the replica has cached. Other policies are least_load, round_robin, power_of_two,
random and session (the same replica for the same value of the header --session-key).

A request whose replica fails before it has begun to answer is sent to another; an answer that breaks off later ends with an error that says so. GET /list_workers
tells of the replicas, POST /add_worker?url=URL and /remove_worker?url=URL change them: a replica that is removed ends what it has. docs/routing.md says more.`,
		Example: `  ridge route http://10.0.0.1:8000 http://10.0.0.2:8000 --listen 0.0.0.0:8080 --api-key-file keys.txt
  ridge route http://127.0.0.1:8001 http://127.0.0.1:8002 --policy round_robin --max-inflight 64
  ridge route http://10.0.0.1:8000,tcp://10.0.0.1:5557 http://10.0.0.2:8000,tcp://10.0.0.2:5557
  curl http://127.0.0.1:8080/v1/chat/completions -d '{"messages": [{"role": "user", "content": "Hello"}]}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			leaves.Add(int64(f.router.Drain))
			if err := f.setAddress(cmd.Flags().Changed); err != nil {
				return err
			}
			f.router.Replicas = args
			return f.run(cmd.Context())
		},
	}
	fl := cmd.Flags()
	f.access.add(fl)
	f.listenFlags.add(fl, "127.0.0.1:8080")
	fl.BoolVar(&f.reusePort, "reuse-port", false, "let another router listen on the same address, which takes over while this one ends what it has")
	fl.StringArrayVar(&f.router.Prefill, "prefill", nil, "address of a server with --role prefill that computes prompts, from which replicas (--role decode) go on; can be given several times")
	fl.IntVar(&f.router.PrefillFrom, "prefill-from", 256, "tokens of a prompt, guessed by its length, from which on a --prefill server computes it")
	fl.StringVar(&f.policy, "policy", policy.Names()[0], "how the replica of a request is chosen: "+strings.Join(policy.Names(), ", "))
	fl.StringVar(&f.router.SessionKey, "session-key", "", "header that names a client's session, for --policy session")
	fl.IntVar(&f.router.MaxInFlight, "max-inflight", 0, "requests that a replica is given at once; others wait, by their priority; 0: any number")
	fl.IntVar(&f.router.Queue, "max-waiting", 1024, "with --max-inflight, requests that wait; further ones are refused")
	fl.IntVar(&f.router.Retries, "retries", 2, "other replicas that a request is sent to when one fails before it has begun to answer")
	fl.DurationVar(&f.router.Interval, "check-interval", time.Second, "time between two checks of a replica's health and figures")
	fl.StringVar(&f.replicaKey, "replica-api-key-file", "", "file with the API key that replicas are shown; default: they are shown the client's")
	fl.StringArrayVar(&f.hosts, "allow-host", nil, "name under which the router may be called without a key, beside localhost; can be given several times")
	fl.StringVar(&f.router.State, "state", "", "file in which the router keeps which replicas there are and what was sent where, to go on from when it is started again")
	fl.DurationVar(&f.router.Drain, "drain-timeout", 30*time.Second, "longest time that requests under way have to finish after Ctrl-C or SIGTERM")
	fl.BoolVar(&f.logJSON, "log-json", false, "write the log as JSON")
	return cmd
}

// check makes the router's options of the flags.
func (f *routeFlags) check() (err error) {
	o := &f.router
	switch {
	case len(o.Replicas) == 0 && o.State == "":
		return errors.New("name the replicas: ridge route http://HOST:PORT http://HOST:PORT")
	case o.MaxInFlight < 0 || o.Queue < 0 || o.Retries < 0:
		return fmt.Errorf("--max-inflight is %d, --max-waiting %d and --retries %d; 0 or more is possible", o.MaxInFlight, o.Queue, o.Retries)
	case o.PrefillFrom < 0:
		return fmt.Errorf("--prefill-from is %d tokens; 0 (all prompts) or more is possible", o.PrefillFrom)
	case o.Interval < 10*time.Millisecond:
		return fmt.Errorf("--check-interval is %v; 10ms or more is possible", o.Interval)
	case (f.policy == "session") != (o.SessionKey != ""):
		return errors.New("--policy session and --session-key need each other; give both")
	}
	if o.Policy, err = policy.New(f.policy); err != nil {
		return fmt.Errorf("--policy: %s", strings.TrimPrefix(err.Error(), "policy: "))
	}
	if o.Keys, err = f.access.readKeys(); err != nil {
		return err
	}
	if f.replicaKey != "" {
		if err := regular.Check(f.replicaKey); err != nil {
			return fmt.Errorf("--replica-api-key-file: %w", err)
		}
		text, err := os.ReadFile(f.replicaKey)
		if err != nil {
			return fmt.Errorf("--replica-api-key-file: %w", err)
		}
		if o.ReplicaKey = strings.TrimSpace(string(text)); o.ReplicaKey == "" || strings.ContainsAny(o.ReplicaKey, " \t\r\n") {
			return fmt.Errorf("--replica-api-key-file: %s should have one key and nothing else", f.replicaKey)
		}
		if len(o.Keys) == 0 {
			return errors.New("--replica-api-key-file is for a router with keys of its own (--api-key-file); without them everybody would have the replicas' key")
		}
	}
	if host, _, err := net.SplitHostPort(f.address); err == nil && host != "" {
		f.hosts = append(f.hosts, host)
	}
	o.Browser = access.Browser{Hosts: f.hosts}
	o.Shape = server.Shape
	if f.access.noAuth {
		return nil
	}
	return server.CheckAddress(f.address, len(o.Keys))
}

// run routes until the command is told to stop.
func (f *routeFlags) run(ctx context.Context) error {
	if err := f.check(); err != nil {
		return err
	}
	f.router.Log = newLog(f.logJSON)
	config := net.ListenConfig{}
	if f.reusePort {
		config.Control = reusePort
	}
	l, err := config.Listen(ctx, "tcp", f.address)
	if err != nil {
		return err
	}
	defer l.Close()
	address := l.Addr()
	if l, err = f.access.secure(l); err != nil {
		return err
	}
	rt, err := route.New(f.router)
	if err != nil {
		return err
	}
	defer rt.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go f.onHangup(ctx, rt)
	fmt.Fprintf(os.Stderr, "ridge: routing to %d replicas at %s://%s, policy %s\n", len(f.router.Replicas), f.access.scheme(), address, f.policy)
	return rt.Serve(ctx, l)
}

// onHangup reads the keys and the certificate again at every SIGHUP.
func (f *routeFlags) onHangup(ctx context.Context, rt *route.Router) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-hangups:
		case <-ctx.Done():
			return
		}
		if _, err := f.access.reload(rt); err != nil {
			f.router.Log.Error("reloading failed; what could not be read stays as it was", "error", err)
		} else {
			f.router.Log.Info("reloaded", "keys", f.access.keyFile, "certificate", f.access.tlsCert)
		}
	}
}

// newLog is the log of a server, on standard error.
func newLog(asJSON bool) *slog.Logger {
	if asJSON {
		return slog.New(slog.NewJSONHandler(os.Stderr, nil))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}
