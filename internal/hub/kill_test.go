package hub_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/internal/hub"
	"github.com/ridge-llm/ridge/internal/testkit/fakehub"
)

// pullEnv makes this test binary pull a model instead, from an endpoint into a cache: so it can be killed.
const pullEnv = "HUB_TEST_PULL"

func TestMain(m *testing.M) {
	endpoint, dir, ok := strings.Cut(os.Getenv(pullEnv), " ")
	if !ok {
		os.Exit(m.Run())
	}
	h := &hub.Hub{Endpoint: endpoint, Dir: dir}
	if _, err := h.Pull(context.Background(), hub.Ref{Repo: fakehub.Repo, Revision: "main"}, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestKill: a process that is killed in the middle leaves what the next one goes on with, and no lock.
func TestKill(t *testing.T) {
	files := repo()
	f, h := start(t, files)
	f.Hold(10 << 20) // of 20 MiB, so that it cannot be done before it is killed
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), pullEnv+"="+f.URL+" "+h.Dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		lists, _ := filepath.Glob(filepath.Join(h.Dir, "models--tiny--model/blobs/*.ridge-done"))
		if len(lists) == 1 {
			if stat, err := os.Stat(lists[0]); err == nil && stat.Size() >= 4 {
				break
			}
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("no chunk was ever done")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("a process that was killed ended well")
	}
	before, _ := f.Served()
	f.Hold(0)
	same(t, pull(t, h, fakehub.Repo), files["model-Q4_K_M.gguf"])
	if after, _ := f.Served(); after-before > 13<<20 {
		t.Errorf("%d bytes of 20 MiB came again", after-before)
	}
}
