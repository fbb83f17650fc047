package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
)

// rankProcess is a process of a rank, and what it says.
type rankProcess struct {
	cmd  *exec.Cmd
	says lockedBuffer
}

// lockedBuffer is what a process has written, also while it writes.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// startRank starts ridge as one of two ranks that meet at an address.
func startRank(t *testing.T, rank int, rendezvous string, args ...string) *rankProcess {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a guard against hanging only
	t.Cleanup(cancel)
	p := &rankProcess{cmd: exec.CommandContext(ctx, "ridge", append(args, "--threads", "1", "--rendezvous", rendezvous, "--rank", fmt.Sprint(rank))...)}
	p.cmd.Env = append(os.Environ(), secretVariable+"=the secret of a test")
	p.cmd.Stderr = &p.says
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // it has ended where nothing is wrong
	return p
}

// freeAddress is an address at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// serving is where a rank 0 serves, once it does.
func (p *rankProcess) serving(t *testing.T) string {
	t.Helper()
	address := regexp.MustCompile(`serving .*(http://[^/]+)`)
	for range 3000 {
		if m := address.FindStringSubmatch(p.says.String()); m != nil {
			return m[1]
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("rank 0 does not serve:\n%s", p.says.String())
	return ""
}

// TestRankDies kills or stops a rank, each of both, while all are idle and in the middle of an answer: the other notices in time and says which, requests end with an error that says so, and
// no process goes on or ends as if all were well.
func TestRankDies(t *testing.T) {
	experts := smallExperts(t)
	for _, c := range []struct {
		name    string
		layout  []string
		dies    int
		busy    bool
		signal  syscall.Signal
		reasons string // of the one that is left
	}{
		{"1 killed, idle", []string{"--tp", "2"}, 1, false, syscall.SIGKILL, "rank 1 is gone: its process has ended"},
		{"1 killed, busy", []string{"--tp", "2"}, 1, true, syscall.SIGKILL, "rank 1 is gone: its process has ended"},
		{"1 killed, busy, tcp", []string{"--pp", "2", "--rank-transport", "tcp"}, 1, true, syscall.SIGKILL, "rank 1 "},
		{"1 stopped, busy", []string{"--pp", "2"}, 1, true, syscall.SIGSTOP, "rank 1 is gone: nothing has come from it for 2s"},
		{"1 killed, idle, experts", []string{"--dp", "2", experts}, 1, false, syscall.SIGKILL, "rank 1 is gone: its process has ended"},
		{"1 killed, busy, experts", []string{"--dp", "2", experts}, 1, true, syscall.SIGKILL, "rank 1 "},
		{"1 stopped, busy, experts, tcp", []string{"--dp", "2", "--rank-transport", "tcp", experts}, 1, true, syscall.SIGSTOP, "rank 1 is gone: nothing has come from it for 2s"},
		{"0 killed, busy, experts", []string{"--dp", "2", "--rank-transport", "tcp", experts}, 0, true, syscall.SIGKILL, "rank 0 "},
		{"0 killed, busy", []string{"--tp", "2"}, 0, true, syscall.SIGKILL, "rank 0 is gone: its process has ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			where := freeAddress(t)
			args := append([]string{"serve", "--data-dir", "off", "--listen", "127.0.0.1:0", "--rank-timeout", "2s"}, c.layout...)
			ranks := []*rankProcess{startRank(t, 0, where, args...), startRank(t, 1, where, args...)}
			url := ranks[0].serving(t)
			answers := make(chan string, 3)
			if c.busy {
				for range cap(answers) {
					go func() {
						text := ""
						for text == "" || strings.Contains(text, "choices") { // small models have short contexts
							text = post(url, `{"prompt": "Once", "max_tokens": 240, "ignore_eos": true}`)
						}
						answers <- text
					}()
				}
				time.Sleep(200 * time.Millisecond)
			}
			died := time.Now()
			if err := ranks[c.dies].cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			left := ranks[1-c.dies]
			if err := left.cmd.Wait(); err == nil {
				t.Error("the rank that is left ended as if all were well")
			}
			if took := time.Since(died); took > 15*time.Second { // 2 s on a machine that has nothing else to do
				t.Errorf("the rank that is left ended after %s", took)
			}
			if text := left.says.String(); !strings.Contains(text, c.reasons) {
				t.Errorf("the rank that is left does not say %q:\n%s", c.reasons, text)
			}
			if c.busy && c.dies == 1 {
				all := ""
				for range cap(answers) { // one that comes later is refused
					all += <-answers + "\n"
				}
				if !strings.Contains(all, c.reasons) {
					t.Errorf("the requests get %s", all)
				}
			}
		})
	}
}

// smallExperts is a small model with experts, and a tokenizer of the bytes.
func smallExperts(t *testing.T) string {
	t.Helper()
	vocab := map[string]int{}
	for c := '!'; c <= '~'; c++ {
		vocab[string(c)] = len(vocab)
	}
	text, err := json.Marshal(map[string]any{
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false},
		"decoder":       map[string]any{"type": "ByteLevel"},
	})
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := errors.Join(os.CopyFS(to, os.DirFS("../../internal/check/testdata/gptoss-yarn")), os.WriteFile(filepath.Join(to, "tokenizer.json"), text, 0o600)); err != nil {
		t.Fatal(err)
	}
	return to
}

// post asks for a completion, and gives the answer or what went wrong.
func post(url, body string) string {
	r, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return fmt.Sprint(string(text), err)
}

// TestRankProcesses: a command that starts the other ranks itself answers as one process does, and so do ranks that were started by themselves; they end with it. Ranks that do not come are
// named, and one that ends before they meet keeps nobody waiting.
func TestRankProcesses(t *testing.T) {
	ask := []string{"run", "--greedy", "-n", "8", "--tp", "2", "Tell me a story about a fox named Pip"}
	want, err := exec.CommandContext(t.Context(), "ridge", ask...).Output()
	if err != nil || len(want) < 10 {
		t.Fatalf("%q, %v", want, err)
	}
	got, err := exec.CommandContext(t.Context(), "ridge", append(ask, "--ranks", "process")...).Output()
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("processes answer %q, %v; wanted %q", got, err, want)
	}
	where := freeAddress(t)
	ranks := []*rankProcess{startRank(t, 0, where, ask...), startRank(t, 1, where, ask...)}
	for rank, p := range ranks {
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("rank %d: %v\n%s", rank, err, p.says.String())
		}
	}
	alone := startRank(t, 0, freeAddress(t), append(ask, "--rank-wait", "300ms")...)
	if err := alone.cmd.Wait(); err == nil || !strings.Contains(alone.says.String(), "of 2 ranks those of number 1 have not come") {
		t.Errorf("a rank that is alone: %v\n%s", err, alone.says.String())
	}
	cmd := exec.CommandContext(t.Context(), "ridge", append(ask, "--ranks", "process", "--rank-transport", "pigeon")...)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), `the transport "pigeon"`) {
		t.Errorf("%s, %v", out, err)
	}
}

// TestRankNumber: who a rank is comes from flags or from what started it, and what does not fit is refused.
func TestRankNumber(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of many letters, at least\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	two := ridge.Layout{Tensor: 2}
	for name, c := range map[string]struct {
		flags rankFlags
		env   map[string]string
		want  ridge.Ranks
		err   string
	}{
		"nothing":       {flags: rankFlags{number: -1}},
		"by hand":       {flags: rankFlags{number: 1, rendezvous: "h:1", secret: secret}, want: ridge.Ranks{Number: 1, Rendezvous: "h:1", Secret: "of many letters, at least"}},
		"MPICH":         {rankFlags{number: -1, rendezvous: "h:1"}, map[string]string{"PMI_RANK": "1", "PMI_SIZE": "2", secretVariable: "s"}, ridge.Ranks{Number: 1, Rendezvous: "h:1", Secret: "s"}, ""},
		"Open MPI":      {rankFlags{number: -1, rendezvous: "h:1"}, map[string]string{"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", secretVariable: "s"}, ridge.Ranks{Number: 1, Rendezvous: "h:1", Secret: "s"}, ""},
		"Kubernetes":    {rankFlags{number: -1}, map[string]string{"LWS_LEADER_ADDRESS": "leader.pods", "LWS_WORKER_INDEX": "1", "LWS_GROUP_SIZE": "2", secretVariable: "s"}, ridge.Ranks{Number: 1, Rendezvous: "leader.pods:29500", Secret: "s"}, ""},
		"another size":  {rankFlags{number: -1, rendezvous: "h:1"}, map[string]string{"PMI_RANK": "1", "PMI_SIZE": "4", secretVariable: "s"}, ridge.Ranks{}, "MPICH has started 4 processes (PMI_SIZE), and --tp 2 × --pp 1 × --sp 1 × --dp 1 are 2"},
		"no secret":     {flags: rankFlags{number: 1, rendezvous: "h:1"}, err: "need a secret"},
		"no number":     {flags: rankFlags{number: -1, rendezvous: "h:1", secret: secret}, err: "which rank this is is not known"},
		"no rendezvous": {flags: rankFlags{number: 1}, err: "--rank is for --rendezvous"},
		"both":          {flags: rankFlags{number: 1, how: "process", rendezvous: "h:1"}, err: "leave out --rendezvous and --rank"},
		"a word":        {flags: rankFlags{number: -1, how: "threads"}, err: `--ranks "threads"`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, e := range environments {
				t.Setenv(e.number, "")
				t.Setenv(e.size, "")
			}
			t.Setenv(secretVariable, "")
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			o := ridge.Options{Layout: two}
			err := c.flags.prepare(t.Context(), &o)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Fatalf("%v; wanted %q", err, c.err)
			}
			if err == nil && (o.Ranks.Number != c.want.Number || o.Ranks.Rendezvous != c.want.Rendezvous || o.Ranks.Secret != c.want.Secret) {
				t.Errorf("%+v; wanted %+v", o.Ranks, c.want)
			}
		})
	}
}
