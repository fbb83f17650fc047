package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// process is a running ridge serve.
type process struct {
	ended <-chan struct{} // closed when the process has ended
	log   string
	stop  func()
}

// start starts the server and waits until it has loaded its model.
func (s *soak) start(ctx context.Context) (*process, error) {
	dir, err := os.MkdirTemp("", "ridge-soak-")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	l.Close()
	args := []string{"serve"}
	if s.model != "" {
		args = append(args, s.model)
	}
	args = append(args, "--listen", address, "--data-dir", filepath.Join(dir, "data"))
	p := &process{log: filepath.Join(dir, "log")}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(s.ridge, append(args, s.settings...)...)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the log says why it ended
		log.Close()
		close(ended)
	}()
	p.ended = ended
	p.stop = func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		<-ended
		os.RemoveAll(dir)
	}
	s.url = "http://" + address
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		r, err := get(ctx, s.url+"/health")
		if err != nil {
			continue
		}
		r.Body.Close()
		if r.StatusCode == http.StatusOK {
			return p, nil
		}
	}
	defer p.stop()
	text, _ := os.ReadFile(p.log)
	return nil, fmt.Errorf("the server was not ready in two minutes; its log:\n%s", text)
}

// listModels are the names under which the server answers: its model's and its adapters'.
func listModels(ctx context.Context, url string) (names []string, err error) {
	r, err := get(ctx, url+"/v1/models")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
		return nil, err
	}
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	return names, nil
}
