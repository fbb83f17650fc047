package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// ready is the timeout of loading the model.
const ready = 2 * time.Minute

// adapter is the name that -lora gets.
const adapter = "adapter"

// server is a running ridge serve.
type server struct {
	gate *gate
	url  string
	stop func()
}

// start starts a server with more settings and warms it up.
func (g *gate) start(more ...string) (*server, error) {
	address, err := free()
	if err != nil {
		return nil, err
	}
	g.servers++
	log, err := os.Create(g.file("server%d.log", g.servers))
	if err != nil {
		return nil, err
	}
	ctx, interrupt := context.WithCancel(context.Background())
	args := append([]string{"serve", g.model, "--listen", address, "--data-dir", "off"}, append(g.settings(), more...)...)
	if g.lora != "" {
		args = append(args, "--lora", adapter+"="+g.lora)
	}
	process := exec.CommandContext(ctx, g.ridge, args...)
	process.Cancel = func() error { return process.Process.Signal(os.Interrupt) }
	process.Stderr = log
	if err := process.Start(); err != nil {
		interrupt()
		return nil, err
	}
	s := &server{g, "http://" + address, func() {
		interrupt()
		_ = process.Wait() // ended by the interrupt
		_ = log.Close()
	}}
	if err := s.warm(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// warm waits until the server has loaded its model, and sends requests so that the pages of its cache are mapped.
func (s *server) warm() error {
	if err := await(s.url); err != nil {
		return err
	}
	g := s.gate
	warm := fmt.Sprintf("constant:n=%d,in=%d,out=8", 2*g.parallel, min(g.context/2, 100))
	if out, err := g.requests(s.url, "--trace", warm, "--concurrency", strconv.Itoa(g.parallel)); err != nil {
		return fmt.Errorf("warming up: %w\n%s", err, out)
	}
	return nil
}

// load sends the server a workload and writes the clients' report to a file.
func (s *server) load(w workload, report string) error {
	if out, err := s.gate.requests(s.url, append([]string{"--output", report}, w.flags()...)...); err != nil {
		return fmt.Errorf("%s: ridge bench serve: %w\n%s", w.name, err, out)
	}
	return nil
}

// requests has clients send a server requests, with the adapter if there is one.
func (g *gate) requests(url string, flags ...string) (string, error) {
	if g.lora != "" {
		flags = append(flags, "--served-model-name", adapter)
	}
	return g.output(append([]string{"bench", "serve", url}, flags...)...)
}

// free is an unused address.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// await waits until the server has loaded its model.
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
