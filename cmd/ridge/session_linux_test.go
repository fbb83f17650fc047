package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/shelf"
)

// terminal is a terminal that a test types on.
type terminal struct {
	t     *testing.T
	keys  *os.File
	mu    sync.Mutex
	shown strings.Builder
}

// onTerminal starts ridge on a terminal of its own.
func onTerminal(t *testing.T, env []string, args ...string) (*terminal, *exec.Cmd) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("there are no terminals to be had:", err)
	}
	t.Cleanup(func() { keys.Close() })
	fd := int(keys.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skip("terminals cannot be made here:", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("terminals cannot be made here:", err)
	}
	defer screen.Close()
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: 100, Row: 30}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // a guard against hanging only
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "ridge", args...)
	cmd.Env = append(append(os.Environ(), "TERM=xterm", "NO_COLOR=", "HOME="+t.TempDir()), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, keys: keys}
	go func() {
		_, _ = io.Copy(x, keys) // up to the end of the program
	}()
	return x, cmd
}

// Write implements io.Writer: it takes what is shown.
func (x *terminal) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.shown.Write(b)
}

// until waits for a text, and returns what was shown up to it since the last.
func (x *terminal) until(text string) string {
	x.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		x.mu.Lock()
		before, after, found := strings.Cut(x.shown.String(), text)
		if found {
			x.shown.Reset()
			x.shown.WriteString(after)
		}
		x.mu.Unlock()
		if found {
			return before
		}
	}
	x.t.Fatalf("%q is never shown, but %q", text, x.shown.String())
	return ""
}

func (x *terminal) write(keys string) {
	x.t.Helper()
	if _, err := x.keys.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// TestSession: on a terminal a conversation has colours, Tab completes commands and models, another model goes on with it, and what is no model changes nothing.
func TestSession(t *testing.T) {
	x, cmd := onTerminal(t, nil, "run", "--greedy", "-n", "12")
	x.until("demo")
	x.until(green + ">>> ")
	x.write("/model nothere\r")
	x.until("there is no file or directory nothere")
	x.until(">>> ")
	x.write("/mod\tgpt-oss:1\t")
	x.until("/model gpt-oss:120b ")
	x.write("\x03") // Ctrl-C takes the line away
	x.until("leaves)")
	x.until(">>> ")
	x.write("/model builtin:diffusion\r")
	x.until("builtin:diffusion" + plain)
	x.until(">>> ")
	x.write("What is a KV cache?\r")
	x.until("KV cache?")
	x.until("KV cache")
	x.until(">>> ")
	x.write("/bye\r")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestTooLarge: before a model is downloaded that has no room, a terminal is asked.
func TestTooLarge(t *testing.T) {
	const name = "gpt-oss:120b"
	m, _ := shelf.Find(name, 0, false)
	if memory := device.Memory(""); memory == 0 || m.Fits(memory, false) {
		t.Skip("this machine has the memory for " + name)
	}
	for _, command := range []string{"pull", "run"} {
		x, cmd := onTerminal(t, []string{"HF_ENDPOINT=http://127.0.0.1:1"}, command, name)
		x.until(name + " needs about 71.8 GB of memory, and this machine has ")
		x.until("Download 63.4 GB all the same? [y/N] ")
		x.write("n\r")
		x.until("nothing was downloaded")
		if err := cmd.Wait(); err == nil {
			t.Errorf("ridge %s ended as if it had done something", command)
		}
	}
}

// TestSessionPlain: with NO_COLOR nothing is coloured.
func TestSessionPlain(t *testing.T) {
	x, cmd := onTerminal(t, []string{"NO_COLOR=1"}, "run", "--greedy", "-n", "4")
	shown := x.until(">>> ")
	x.write("/nothing\r")
	shown += x.until("there is no command")
	shown += x.until(">>> ")
	x.write("/bye\r")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	for _, colour := range []string{bold, red, green, dim} {
		if strings.Contains(shown, colour) {
			t.Errorf("%q has a colour", shown)
		}
	}
}
