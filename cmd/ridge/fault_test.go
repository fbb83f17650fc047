package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// standIn makes a stand-in of a GPU's driver and gives the folder that it lies in.
func standIn(t *testing.T) (dir string) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("the stand-in for NVIDIA's driver is a Linux library, made with a C compiler")
	}
	dir = t.TempDir()
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", filepath.Join(dir, "libcuda.so.1"), "../../backend/cuda/driver/testdata/libcuda.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// startOn starts ridge on the stand-in of a folder, which reads setting from its environment, and gives the lines of its standard error.
func startOn(t *testing.T, dir, setting string, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // a guard against hanging only
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "ridge", args...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, setting)
	cmd.WaitDelay = time.Minute
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(stderr)
}

// TestServeFault serves on a stand-in of a GPU, one of whose kernels faults: requests end with the error, and the server with them.
func TestServeFault(t *testing.T) {
	dir := standIn(t)
	cmd, lines := startOn(t, dir, "FAKE_FAULT=300", "serve", "--backend", "cuda", "--data-dir", "off", "--listen", "127.0.0.1:0")
	url := ""
	for address := regexp.MustCompile(`http://[^/]+`); url == ""; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the server ended before it served: %v", err)
		}
		if strings.Contains(line, "serving") {
			url = address.FindString(line)
		}
	}
	// The first may find the model still loading. Each that is answered takes some launches; sooner or later one faults.
	body, status := "", http.StatusOK
	for status == http.StatusOK || strings.Contains(body, `"loading"`) {
		r, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"prompt": "Once", "max_tokens": 50, "ignore_eos": true, "temperature": 0}`))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		body, status = string(text), r.StatusCode
	}
	if status != http.StatusInternalServerError && status != http.StatusServiceUnavailable || !strings.Contains(body, "error") {
		t.Errorf("status %d: %s", status, body)
	}
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the server ended as if all were well")
	}
	if text := string(rest); !strings.Contains(text, "the model has failed and the server stops") || !strings.Contains(text, "the GPU has faulted") {
		t.Errorf("the server's last words do not say why:\n%s", text)
	}
}
