package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// network is two network namespaces with a link between them: two hosts, as far as the network goes.
type network struct {
	names     [2]string
	addresses [2]string
	slow      bool // the link has delay and loss
}

// newNetwork makes namespaces, which end with the test; the test is skipped where it may not.
func newNetwork(t *testing.T) *network {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root makes network namespaces")
	}
	id := os.Getpid() % 100_000
	n := &network{addresses: [2]string{"10.213.77.1", "10.213.77.2"}}
	links := [2]string{fmt.Sprintf("rg%da", id), fmt.Sprintf("rg%db", id)}
	ip := func(args ...string) error {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	for i, link := range links {
		n.names[i] = "ridge-" + link
		if err := ip("netns", "add", n.names[i]); err != nil {
			t.Skip("no network namespaces here: ", err)
		}
		t.Cleanup(func() {
			if err := ip("netns", "del", n.names[i]); err != nil {
				t.Error(err)
			}
		})
	}
	if err := ip("link", "add", links[0], "netns", n.names[0], "type", "veth", "peer", "name", links[1], "netns", n.names[1]); err != nil {
		t.Skip("no link between network namespaces here: ", err)
	}
	n.slow = true
	for i, link := range links {
		for _, args := range [][]string{{"addr", "add", n.addresses[i] + "/24", "dev", link}, {"link", "set", link, "up"}, {"link", "set", "lo", "up"}} {
			if err := ip(append([]string{"-n", n.names[i]}, args...)...); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := exec.Command("ip", "netns", "exec", n.names[i], "tc", "qdisc", "add", "dev", link, "root", "netem", "delay", "3ms", "2ms", "loss", "1%").CombinedOutput(); err != nil && n.slow {
			n.slow = false
			t.Logf("the link has neither delay nor loss: tc netem: %v: %s", err, strings.TrimSpace(string(out)))
		}
	}
	return n
}

// link takes the link down, or up again.
func (n *network) link(t *testing.T, state string) {
	t.Helper()
	if text, err := exec.Command("ip", "-n", n.names[0], "link", "set", strings.TrimPrefix(n.names[0], "ridge-"), state).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
}

// run has two ranks answer, one in each namespace, and takes the link down once the answer has begun, if it is to.
func (n *network) run(t *testing.T, down bool, args []string) (answer, says string, errs [2]error, took time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second) // a rank that is still there then hangs
	defer cancel()
	var ranks [2]*exec.Cmd
	var out, said lockedBuffer
	for i := range ranks {
		c := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", n.names[i], "ridge", "run", "--rendezvous", n.addresses[0] + ":29500", "--rank", fmt.Sprint(i)}, args...)...)
		c.Env = append(os.Environ(), secretVariable+"=the secret of a test")
		if c.Stderr = &said; i == 0 {
			c.Stdout = &out
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ranks[i] = c
	}
	began := time.Now()
	if down {
		for out.String() == "" && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		began = time.Now()
		n.link(t, "down")
	}
	for i := range ranks {
		errs[i] = ranks[i].Wait()
	}
	if took = time.Since(began); ctx.Err() != nil {
		t.Errorf("the ranks are still there after 100 s: %s", said.String())
	}
	return strings.TrimSpace(out.String()), said.String(), errs, took
}

// TestRanksInNamespaces: ranks in two network namespaces give the answer of ranks beside each other, over a link with delay and loss where the system can make one; where the link goes down in the
// middle both end, and no wrong word has come.
func TestRanksInNamespaces(t *testing.T) {
	if testing.Short() {
		t.Skip("about 10 s")
	}
	args := []string{"--greedy", "-n", "800", "--ignore-eos", "--threads", "1", "--rank-wait", "30s", "--rank-timeout", "2s", "Tell me a story about a fox named Pip"}
	n := newNetwork(t)
	for _, layout := range []string{"--tp", "--pp"} {
		n.link(t, "up")
		beside, err := exec.Command("ridge", append([]string{"run", layout, "2", "--ranks", "process"}, args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		right := strings.TrimSpace(string(beside))
		all := append([]string{layout, "2", "--rank-transport", "tcp"}, args...)
		answer, says, errs, length := n.run(t, false, all)
		if answer != right || errs[0] != nil || errs[1] != nil {
			t.Errorf("%s, delay and loss %t: %v, %q and not %q\n%s", layout, n.slow, errs, answer, right, says)
			continue
		}
		answer, says, errs, took := n.run(t, true, all)
		if !strings.HasPrefix(right, answer) {
			t.Errorf("%s: before the link was down came %q and not %q", layout, answer, right)
		}
		if answer != right && (errs[0] == nil || !strings.Contains(says, "ridge: ")) { // else it was whole before the link was down
			t.Errorf("%s: the link was down, and it ended with %v, %q: %s", layout, errs, answer, says)
		}
		if took > 20*time.Second {
			t.Errorf("%s: ranks ended %v after their link was down", layout, took)
		}
		t.Logf("%s, delay and loss %t: %v without a fault; ended %v after the link was down (%v), with %d of %d bytes", layout, n.slow, length.Round(time.Millisecond), took.Round(time.Millisecond), errs, len(answer), len(right))
	}
}
