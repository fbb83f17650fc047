package main

import (
	"context"
	options "flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	rankFaults    = options.Int("rankfaults", 4, "TestRankFaults: how many faults")
	rankFaultSeed = options.Uint64("rankfaultseed", 1, "TestRankFaults: the seed of the first")
)

// faultyLink is a link between two ranks that fails in some way at some time. All that they say to each other goes through it, but what they have in shared memory.
type faultyLink struct {
	listener net.Listener
	to       string
	delay    time.Duration // of everything; a slow link

	mu     sync.Mutex
	conns  []net.Conn
	frozen bool // nothing arrives any more
	half   bool // the next piece arrives by half, and then nothing
}

func newFaultyLink(t *testing.T, to string, delay time.Duration) *faultyLink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &faultyLink{listener: l, to: to, delay: delay}
	go k.accept()
	t.Cleanup(k.cut)
	return k
}

func (k *faultyLink) accept() {
	for {
		from, err := k.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", k.to)
		if err != nil { // rank 0 is not there yet: the caller tries again
			from.Close()
			continue
		}
		k.mu.Lock()
		k.conns = append(k.conns, from, to)
		k.mu.Unlock()
		go k.carry(to, from)
		go k.carry(from, to)
	}
}

// carry copies what comes, until the link fails.
func (k *faultyLink) carry(to, from net.Conn) {
	defer to.Close()
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		time.Sleep(k.delay)
		k.mu.Lock()
		frozen, half := k.frozen, k.half
		k.mu.Unlock()
		switch {
		case frozen:
			_, _ = io.Copy(io.Discard, from)
			return
		case half:
			_, _ = to.Write(piece[:n/2])
			k.cut()
			return
		}
		if _, err := to.Write(piece[:n]); err != nil {
			return
		}
	}
}

// cut ends all connections, and lets no new ones begin.
func (k *faultyLink) cut() {
	k.listener.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.conns {
		c.Close()
	}
}

func (k *faultyLink) set(what *bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	*what = true
}

// faultKinds are what can happen to two ranks and the link between them.
var faultKinds = []string{"rank 1 is killed", "rank 0 is killed", "rank 1 is stopped", "the link is cut", "the link is frozen", "a message is half written", "the link is slow"}

// TestRankFaults has two ranks answer while one of them, or the link between them, fails at a random time of what that took without a fault: from the meeting to the answer's last tokens. What has been answered by
// then is the beginning of the right answer; both processes end, in time, and not as if all were well, unless the answer was complete. A slow link gives the whole answer.
func TestRankFaults(t *testing.T) {
	args := []string{"--greedy", "-n", "48", "--threads", "1", "--rank-timeout", "1s", "Tell me a story about a fox named Pip"}
	right, length := map[string]string{}, map[string]time.Duration{}
	all := func(layout, transport string) []string {
		return append([]string{layout, "2", "--rank-transport", transport, "--rank-wait", "10s"}, args...)
	}
	for _, layout := range []string{"--tp", "--pp"} {
		answer, err := exec.Command("ridge", append([]string{"run", layout, "2", "--ranks", "process"}, args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		right[layout] = string(answer)
	}
	hits := 0
	for i := range *rankFaults {
		seed := *rankFaultSeed + uint64(i)
		rnd := rand.New(rand.NewPCG(seed, 1))
		kind := faultKinds[(int(seed)-1)%len(faultKinds)]
		layout, transport := []string{"--tp", "--pp"}[rnd.IntN(2)], []string{"shm", "tcp"}[rnd.IntN(2)]
		if length[layout+transport] == 0 {
			if length[layout+transport] = rankFault(t, "", 0, right[layout], all(layout, transport)).took; t.Failed() {
				return
			}
		}
		part := rnd.Float64()
		after := time.Duration(part * lastFault * float64(length[layout+transport]))
		t.Run(fmt.Sprintf("seed %d, %s after %s, %s 2, %s", seed, kind, after.Round(time.Millisecond), layout, transport), func(t *testing.T) {
			if run := rankFault(t, kind, after, right[layout], all(layout, transport)); !run.whole {
				hits++
			} else { // runs have become faster
				length[layout+transport] = min(length[layout+transport], run.took)
			}
		})
	}
	if t.Logf("%d of %d faults came before the answer was whole", hits, *rankFaults); *rankFaults >= 2*len(faultKinds) && hits < *rankFaults/2 {
		t.Error("too few faults came in time to show anything")
	}
}

// lastFault is the part of a run's length in which faults come: in the rest the answer is there, and processes end.
const lastFault = 0.8

// faultyRun is how a run went: what it took until both ranks had ended, and whether the answer was whole.
type faultyRun struct {
	took  time.Duration
	whole bool
}

// rankFault has two ranks answer, and something happen to them; "": nothing does.
func rankFault(t *testing.T, kind string, after time.Duration, right string, args []string) faultyRun {
	t.Helper()
	started := time.Now()
	where := freeAddress(t)
	delay := time.Duration(0)
	if kind == "the link is slow" {
		delay = 5 * time.Millisecond
	}
	link := newFaultyLink(t, where, delay)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second) // a rank that is still there then hangs
	defer cancel()
	var ranks [2]*exec.Cmd
	var says [2]lockedBuffer
	var answer lockedBuffer
	for i, address := range []string{where, link.listener.Addr().String()} {
		c := exec.CommandContext(ctx, "ridge", append([]string{"run", "--rendezvous", address, "--rank", fmt.Sprint(i)}, args...)...)
		c.Env = append(os.Environ(), secretVariable+"=the secret of a test")
		if c.Stderr = &says[i]; i == 0 {
			c.Stdout = &answer
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ranks[i] = c
	}
	time.Sleep(after)
	begun := time.Now()
	switch kind {
	case "rank 1 is killed":
		_ = ranks[1].Process.Kill() // it may have ended
	case "rank 0 is killed":
		_ = ranks[0].Process.Kill()
	case "rank 1 is stopped":
		_ = ranks[1].Process.Signal(syscall.SIGSTOP)
	case "the link is cut":
		link.cut()
	case "the link is frozen":
		link.set(&link.frozen)
	case "a message is half written":
		link.set(&link.half)
	}
	stopped := kind == "rank 1 is stopped"
	err0 := ranks[0].Wait()
	if stopped { // a process that is stopped ends when it is let go
		_ = ranks[1].Process.Signal(syscall.SIGCONT)
	}
	err1 := ranks[1].Wait()
	took := time.Since(begun)
	got := answer.String()
	if !strings.HasPrefix(right, strings.TrimRight(got, "\n")) {
		t.Errorf("another answer than the right one:\n%s\n%s", got, right)
	}
	whole := strings.TrimSpace(got) == strings.TrimSpace(right)
	switch {
	case ctx.Err() != nil:
		t.Errorf("the ranks are still there after 50 s:\nrank 0: %s\nrank 1: %s", says[0].String(), says[1].String())
	case (kind == "the link is slow" || kind == "") && (!whole || err0 != nil || err1 != nil):
		t.Errorf("without a fault, or over a slow link: %v, %v, %q\nrank 0: %s\nrank 1: %s", err0, err1, got, says[0].String(), says[1].String())
	case err0 == nil && !whole:
		t.Errorf("rank 0 ends as if all were well, with %q\n%s", got, says[0].String())
	case err0 != nil && kind != "rank 0 is killed" && !strings.Contains(says[0].String(), "ridge: "):
		t.Errorf("rank 0 does not say why it ends: %v, %s", err0, says[0].String())
	}
	t.Logf("%.2f s later: %v, %v; %d of %d bytes of the answer", took.Seconds(), err0, err1, len(got), len(right))
	return faultyRun{time.Since(started), whole}
}
