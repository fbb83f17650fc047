package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// ready is how long a server may take to load its model.
const ready = 2 * time.Minute

// serve starts a server, warms it up, sends it the workload, and returns the file with the clients' report.
func (g *gate) serve(w workload, more ...string) (report string, err error) {
	address, err := free()
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithCancel(context.Background())
	args := append([]string{"serve", g.model, "--listen", address, "--data-dir", "off"}, append(g.settings(), more...)...)
	server := exec.CommandContext(ctx, g.ridge, args...)
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	log, err := os.Create(filepath.Join(g.dir, "server.log"))
	if err != nil {
		stop()
		return "", err
	}
	defer log.Close()
	server.Stderr = log
	if err := server.Start(); err != nil {
		stop()
		return "", err
	}
	defer func() {
		stop()
		_ = server.Wait() // it was interrupted
	}()
	url := "http://" + address
	if err := await(url); err != nil {
		return "", err
	}
	// Meanwhile the server finds memory for its cache.
	warm := fmt.Sprintf("constant:n=%d,in=%d,out=8", 2*g.parallel, min(g.context/2, 200))
	if out, err := g.output("bench", "serve", url, "--trace", warm, "--concurrency", strconv.Itoa(g.parallel)); err != nil {
		return "", fmt.Errorf("warming up: %w\n%s", err, out)
	}
	report = filepath.Join(g.dir, "report.json")
	if out, err := g.output(append([]string{"bench", "serve", url, "--json", report}, w.flags()...)...); err != nil {
		return "", fmt.Errorf("ridge bench serve: %w\n%s", err, out)
	}
	return report, nil
}

// free is an address that nobody listens on.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// await waits until the server has its model.
func await(url string) error {
	for until := time.Now().Add(ready); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		reply, err := http.Get(url + "/health")
		if err != nil {
			continue
		}
		reply.Body.Close()
		if reply.StatusCode == http.StatusOK {
			return nil
		}
	}
	return fmt.Errorf("the server at %s was not ready after %v", url, ready)
}

// output runs ridge and returns what it printed.
func (g *gate) output(args ...string) (string, error) {
	cmd := exec.Command(g.ridge, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return string(out), err
}
