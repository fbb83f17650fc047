//go:build unix

package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/internal/builtin"
)

// serving is a server in a process of its own.
type serving struct {
	*exec.Cmd
	url   string
	lines chan string // of its standard error, behind those that were waited for
	seen  []string
}

// serve starts the server on a model file.
func serve(t *testing.T, args ...string) *serving {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ridge", append([]string{"serve", "--data-dir", "off", "--listen", "127.0.0.1:0"}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &serving{Cmd: cmd, lines: make(chan string, 1000)}
	go func() {
		defer close(s.lines)
		text := ""
		buf := make([]byte, 4096)
		for {
			n, err := stderr.Read(buf)
			text += string(buf[:n])
			for {
				line, rest, ok := strings.Cut(text, "\n")
				if !ok {
					break
				}
				s.lines <- line
				text = rest
			}
			if err != nil {
				return
			}
		}
	}()
	s.url = regexp.MustCompile(`http://[^/]+`).FindString(s.until(t, "serving"))
	return s
}

// until waits for a line with a word.
func (s *serving) until(t *testing.T, word string) string {
	t.Helper()
	for line := range s.lines {
		s.seen = append(s.seen, line)
		if strings.Contains(line, word) {
			return line
		}
	}
	t.Fatalf("the server ended without a word of %q:\n%s", word, strings.Join(s.seen, "\n"))
	return ""
}

func (s *serving) complete(t *testing.T, more string) (int, string) {
	t.Helper()
	r, err := http.Post(s.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt": "Once", "temperature": 0, "max_tokens": 5`+more+`}`))
	return read(t, r, err)
}

func (s *serving) health(t *testing.T) (int, string) {
	t.Helper()
	r, err := http.Get(s.url + "/health")
	return read(t, r, err)
}

func read(t *testing.T, r *http.Response, err error) (int, string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

func (s *serving) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := s.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// end waits for the process.
func (s *serving) end() error {
	for range s.lines {
	}
	return s.Wait()
}

// TestServeModelFile: a server whose model file is cut answers with an error that names it, is unhealthy and stays up; SIGHUP has it
// load the file that is there then, and answers are as before. A reload that fails leaves what there was.
func TestServeModelFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	write := func(name string) {
		if err := os.WriteFile(name, builtin.GGUF(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path)
	s := serve(t, path, "--ctx", "128")
	status, want := s.complete(t, "")
	if status != 200 {
		t.Fatalf("%d %s", status, want)
	}
	text := regexp.MustCompile(`"text":"[^"]*"`).FindString(want)
	s.signal(t, syscall.SIGHUP)
	s.until(t, "files have not changed")
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if status, body := s.complete(t, ""); status != 503 || !strings.Contains(body, path) || !strings.Contains(body, "model_file_changed") {
			t.Errorf("%d %s", status, body)
		}
	}
	if status, body := s.health(t); status != 503 || !strings.Contains(body, `"failed"`) || !strings.Contains(body, path) {
		t.Errorf("/health: %d %s", status, body)
	}
	s.signal(t, syscall.SIGHUP)
	s.until(t, "the model was not loaded again")
	write(path + ".new")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	s.signal(t, syscall.SIGHUP)
	s.until(t, "the model was loaded again")
	for status, end := 0, time.Now().Add(time.Minute); status != 200; { // the new model takes over a moment after it is loaded
		if status, _ = s.health(t); status != 200 && time.Now().After(end) {
			t.Fatalf("/health stays at %d", status)
		}
	}
	if status, body := s.complete(t, ""); status != 200 || !strings.Contains(body, text) {
		t.Errorf("after the reload: %d %s, want %s", status, body, text)
	}
	s.signal(t, syscall.SIGTERM)
	if err := s.end(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// TestServeSignals: what is under way at SIGTERM is waited for, a second one ends the server at once, and the exit code tells when
// requests were cut off.
func TestServeSignals(t *testing.T) {
	for _, twice := range []bool{true, false} {
		args := []string{"--ctx", "8192"}
		if !twice {
			args = append(args, "--drain-timeout", "1ms")
		}
		s := serve(t, args...)
		r, err := http.Post(s.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt": "Once", "max_tokens": 8000, "ignore_eos": true, "stream": true}`))
		if err != nil {
			t.Fatal(err)
		}
		s.signal(t, syscall.SIGTERM)
		s.until(t, "stopping")
		if twice {
			s.signal(t, syscall.SIGTERM)
		}
		text, readErr := io.ReadAll(r.Body)
		r.Body.Close()
		err = s.end()
		exit, _ := err.(*exec.ExitError)
		switch {
		case exit == nil:
			t.Errorf("twice %t: the server ended with %v", twice, err)
		case twice && exit.ExitCode() != 128+int(syscall.SIGTERM):
			t.Errorf("the second SIGTERM did not end the server at once: %v", exit)
		case !twice && (exit.ExitCode() != 1 || readErr != nil || !strings.Contains(string(text), "cut_off")):
			t.Errorf("cut off: exit code %d, %v, %.300s", exit.ExitCode(), readErr, text[max(0, len(text)-300):])
		}
	}
}

// TestServeRegularFiles: a FIFO, a socket or a device in place of a file is refused at once, where reading it would wait without end.
func TestServeRegularFiles(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	for _, args := range [][]string{
		{socket}, {"--api-key-file", socket}, {"--chat-template", socket}, {fifo}, {"--api-key-file", fifo}, {"--record", fifo}, {"--chat-template", fifo}, {"--api-key-file", "/dev/zero"}, {"--record", "/dev/full"}, {"/dev/zero"},
		{"--tls-cert", fifo, "--tls-key", fifo},
	} {
		out, err := exec.CommandContext(t.Context(), "ridge", append([]string{"serve", "--data-dir", "off", "--listen", "127.0.0.1:0"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "only a regular file is possible") {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
}
