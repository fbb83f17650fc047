package server_test

import (
	"bufio"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/store"
)

// childDir in the environment makes the test binary a server with a store there, until it is killed.
const childDir = "RIDGE_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
	}
	os.Exit(m.Run())
}

func child(dir string) {
	m, err := ridge.Load("", ridge.Options{Threads: 1})
	if err != nil {
		panic(err)
	}
	st, err := store.Open(dir)
	if err != nil {
		panic(err)
	}
	fmt.Println(httptest.NewServer(server.New(m, server.Options{Store: st})).URL)
	select {}
}

// spawn starts a process that serves the store in dir.
func spawn(t *testing.T, dir string) (c *client, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			killed = true
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	t.Cleanup(kill)
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return &client{t, strings.TrimSpace(url)}, kill
}

// TestBatchSurvivesKill: a process is killed (SIGKILL) in the middle of a batch, several times. What was finished stays as
// it was, and in the end every line is there once, with the answer it would have had anyway.
func TestBatchSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	const lines = 90
	c, kill := spawn(t, dir)
	id := c.begin("/v1/completions", "24h", batchInput(lines, 12)).ID
	var finished []byte
	for round := range 2 {
		seen := c.until(id, "under way", func(b store.Batch) bool { return b.Counts.Completed >= 20*(round+1) }).Counts.Completed
		kill()
		journal, err := os.ReadFile(filepath.Join(dir, "batches", id+".output"))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(journal), "\n"); n < seen || n >= lines || !strings.HasPrefix(string(journal), string(finished)) {
			t.Fatalf("round %d: %d lines were told to be finished, %d are written down, begun as before: %t", round, seen, n, strings.HasPrefix(string(journal), string(finished)))
		}
		finished = journal[:strings.LastIndex(string(journal), "\n")+1]
		c, kill = spawn(t, dir)
	}
	b := c.until(id, "over", over)
	if b.Status != store.Completed || b.Counts != (store.Counts{Total: lines, Completed: lines}) {
		t.Fatalf("%+v", b)
	}
	if whole := c.get("/v1/files/" + b.Output + "/content"); !strings.HasPrefix(whole, string(finished)) {
		t.Error("what was finished before the last kill is not as it was")
	}
	texts := func(all map[string]outcome) map[string]string {
		m := map[string]string{}
		for id, o := range all {
			m[id] = o.Response.Body.Choices[0].Text
		}
		return m
	}
	crashed := texts(c.outcomes(b.Output))
	calm := c.until(c.begin("/v1/completions", "24h", batchInput(lines, 12)).ID, "over", over)
	if len(crashed) != lines || !maps.Equal(crashed, texts(c.outcomes(calm.Output))) {
		t.Errorf("%d lines; the same batch without crashes says something else", len(crashed))
	}
}
