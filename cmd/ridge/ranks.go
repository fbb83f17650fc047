package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/regular"
)

// rankFlags say how the devices of a layout are spread over processes.
type rankFlags struct {
	how        string // devices, process
	rendezvous string
	number     int // -1: of the environment
	secret     string
	transport  string
	noticed    time.Duration
	meet       time.Duration
}

// Variables that a rank gives those that it starts, none of which is a flag's (config.go). The secret's is also for people.
const (
	rankVariable       = "RIDGE_STARTED_RANK"
	rendezvousVariable = "RIDGE_STARTED_RENDEZVOUS"
	secretVariable     = "RIDGE_RANK_SECRET"
)

// leaderPort is where rank 0 listens on the leader that LeaderWorkerSet names.
const leaderPort = "29500"

func (f *rankFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.how, "ranks", "", "process: every device of --tp, --pp, --sp and --dp is a process of its own on this host, started by this one; default: all are of this process, unless --rendezvous is given")
	fl.StringVar(&f.rendezvous, "rendezvous", "", "HOST:PORT of rank 0, at which the ranks of --tp × --pp × --sp × --dp processes meet, started by mpirun, LeaderWorkerSet (default: its leader, port "+leaderPort+") or by hand with --rank")
	fl.IntVar(&f.number, "rank", -1, "number of this process among those that meet at --rendezvous, from 0; default: what mpirun, Slurm or LeaderWorkerSet say")
	fl.StringVar(&f.secret, "rank-secret-file", "", "file with what ranks prove to each other that they know, 16 bytes or more; default: the variable "+secretVariable)
	fl.StringVar(&f.transport, "rank-transport", "", "what devices exchange activations through: shm (shared memory of one host), tcp or mpi (by the MPI whose mpirun has started the ranks), and on GPUs, of one process too, nccl or peer (Ridge's own kernels); default: shm where it is shared, and else tcp; on GPUs their kernels where they reach each other, and else NCCL")
	fl.DurationVar(&f.noticed, "rank-timeout", 0, "time without a word after which a rank is gone, and with it all others; 0: 2s")
	fl.DurationVar(&f.meet, "rank-wait", 0, "longest time that ranks wait for each other at the start; 0: 1m")
}

// environment is what starts processes, and the variables in which it says their number, how many there are, and their number on their host.
var environments = []struct{ name, number, size, local string }{
	{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
	{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
	{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
	{"LeaderWorkerSet", "LWS_WORKER_INDEX", "LWS_GROUP_SIZE", ""},
}

// prepare fills in the options' Ranks, and starts the other ranks if that is asked for.
func (f *rankFlags) prepare(ctx context.Context, o *ridge.Options) error {
	r := &o.Ranks
	r.Transport, r.Noticed, r.Meet = f.transport, f.noticed, f.meet
	if child := os.Getenv(rankVariable); child != "" {
		n, err := strconv.Atoi(child)
		if err != nil {
			return fmt.Errorf("%s is %q, which is no number of a rank", rankVariable, child)
		}
		r.Number, r.Local, r.Rendezvous, r.Secret = n, n, os.Getenv(rendezvousVariable), os.Getenv(secretVariable)
		divideThreads(o)
		return nil
	}
	switch f.how {
	case "":
	case "process":
		if f.rendezvous != "" || f.number >= 0 {
			return errors.New("--ranks process starts the other ranks on this host by itself; leave out --rendezvous and --rank, or start each rank with them and without --ranks")
		}
		return f.start(ctx, o)
	default:
		return fmt.Errorf("--ranks %q; process is possible", f.how)
	}
	if leader := os.Getenv("LWS_LEADER_ADDRESS"); f.rendezvous == "" && leader != "" && o.Layout.Devices() > 1 {
		f.rendezvous = net.JoinHostPort(leader, leaderPort)
	}
	if f.rendezvous == "" {
		if f.number >= 0 {
			return errors.New("--rank is for --rendezvous, HOST:PORT of rank 0; give both or none")
		}
		return nil
	}
	return f.join(o)
}

// join says which of the ranks that others have started this is.
func (f *rankFlags) join(o *ridge.Options) (err error) {
	r := &o.Ranks
	r.Rendezvous = f.rendezvous
	if r.Secret, err = f.readSecret(); err != nil {
		return err
	}
	if f.number >= 0 {
		r.Number = f.number
		return nil
	}
	for _, e := range environments {
		number, size := os.Getenv(e.number), os.Getenv(e.size)
		if number == "" {
			continue
		}
		n, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("%s (%s) is %q, which is no number", e.number, e.name, number)
		}
		if all, err := strconv.Atoi(size); err == nil && all != o.Layout.Devices() {
			return fmt.Errorf("%s has started %d processes (%s), and --tp %d × --pp %d × --sp %d × --dp %d are %d", e.name, all, e.size, max(o.Layout.Tensor, 1), max(o.Layout.Pipeline, 1), max(o.Layout.Sequence, 1), max(o.Layout.Data, 1), o.Layout.Devices())
		}
		r.Number = n
		if here, err := strconv.Atoi(os.Getenv(e.local)); err == nil {
			r.Local = here
		}
		return nil
	}
	return errors.New("--rendezvous is given, and which rank this is is not known: give --rank, or start the ranks by mpirun, srun or LeaderWorkerSet")
}

// readSecret is the ranks' secret.
func (f *rankFlags) readSecret() (string, error) {
	if f.secret == "" {
		if s := os.Getenv(secretVariable); s != "" {
			return s, nil
		}
		return "", fmt.Errorf("ranks that meet at --rendezvous need a secret: give a file with it (--rank-secret-file), or the variable %s", secretVariable)
	}
	text, err := regular.ReadFile(f.secret)
	if err != nil {
		return "", fmt.Errorf("--rank-secret-file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// divideThreads gives each process of a host its part of the threads.
func divideThreads(o *ridge.Options) {
	if !device.OnGPU(o.Backend) {
		o.Threads = cmp.Or(o.Threads, max(runtime.GOMAXPROCS(0)/o.Layout.Devices(), 1))
	}
}

// start starts the other ranks, with this one's arguments.
func (f *rankFlags) start(ctx context.Context, o *ridge.Options) error {
	n := o.Layout.Devices()
	if n == 1 {
		return errors.New("--ranks process with one device; give --tp, --pp, --sp or --dp")
	}
	if err := o.Layout.Check(); err != nil {
		return err
	}
	divideThreads(o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails (crypto/rand)
	ended := make(chan error, n)
	r := &o.Ranks
	r.Rendezvous, r.Listener, r.Secret, r.Ended = l.Addr().String(), l, hex.EncodeToString(secret), ended
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for i := 1; i < n; i++ {
		// Not CommandContext: a rank ends with rank 0, which after a signal lets requests under way finish.
		c := &exec.Cmd{Path: self, Args: os.Args}
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", rankVariable, i), rendezvousVariable+"="+r.Rendezvous, secretVariable+"="+r.Secret)
		c.Stdout, c.Stderr = os.Stderr, os.Stderr
		if err := c.Start(); err != nil {
			return errors.Join(fmt.Errorf("starting rank %d: %w", i, err), l.Close()) // those that run find nobody
		}
		go func() { ended <- fmt.Errorf("rank %d has ended: %w", i, cmp.Or(c.Wait(), errors.New("exit status 0"))) }()
	}
	return nil
}

// isRank reports whether this process works for rank 0.
func isRank(o *ridge.Options) bool { return o.Ranks.Rendezvous != "" && o.Ranks.Number > 0 }

// work has the process work for rank 0 if it is another rank, until that ends: worked is true then, and there is nothing else to do.
func (f *modelFlags) work(ctx context.Context) (worked bool, err error) {
	if err := f.ranks.prepare(ctx, &f.options); err != nil || !isRank(&f.options) {
		return false, err
	}
	path, err := fetchedPath(ctx, f.path, f.options.Backend)
	if err != nil {
		return true, err
	}
	rank := f.options.Ranks.Number
	f.options.Note = func(text string) { fmt.Fprintf(os.Stderr, "ridge: rank %d: %s\n", rank, text) }
	f.options.Ranks.Loaded = restCollector()
	if err := ridge.Work(path, f.options); err != nil {
		return true, fmt.Errorf("rank %d: %w", rank, err)
	}
	return true, nil
}
