package server_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// browser is a tab of a headless Chromium, driven by the DevTools protocol over a pipe (chromedevtools.github.io/devtools-protocol): messages
// are JSON, with a zero byte after each.
type browser struct {
	t       *testing.T
	in      *os.File
	out     *bufio.Reader
	session string
	id      int
	errors  []string // that the page's scripts threw, and what the console was told of as errors
}

// newBrowser starts a browser, or skips the test where there is none.
func newBrowser(t *testing.T, flags ...string) *browser {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("there is no chromium on PATH to try the page in")
	}
	toIt, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, fromIt, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append(flags, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--window-size=1200,800", "--user-data-dir="+t.TempDir())...)
	cmd.ExtraFiles = []*os.File{toIt, fromIt} // 3 and 4, as the flag wants
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toIt.Close()
	fromIt.Close()
	b := &browser{t: t, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	t.Cleanup(func() {
		in.Close() // which ends it
		_ = cmd.Wait()
		out.Close()
	})
	if err := errors.Join(in.SetWriteDeadline(time.Now().Add(3*time.Minute)), out.SetReadDeadline(time.Now().Add(3*time.Minute))); err != nil {
		t.Fatal(err)
	}
	var target struct{ TargetID, SessionID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	b.call("Runtime.enable", nil, nil)
	b.call("Log.enable", nil, nil)
	return b
}

// call sends a command and waits for its result.
func (b *browser) call(method string, params map[string]any, result any) {
	b.t.Helper()
	b.id++
	message := map[string]any{"id": b.id, "method": method, "params": params}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	data, err := json.Marshal(message)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(data, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		line, err := b.out.ReadBytes(0)
		if err != nil {
			b.t.Fatalf("%s: %v", method, err)
		}
		var reply struct {
			ID     int
			Method string
			Params json.RawMessage
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(line[:len(line)-1], &reply); err != nil {
			b.t.Fatal(err)
		}
		switch {
		case reply.Method != "":
			b.note(reply.Method, reply.Params)
		case reply.ID != b.id:
		case reply.Error != nil:
			b.t.Fatalf("%s: %s", method, reply.Error.Message)
		default:
			if result != nil {
				if err := json.Unmarshal(reply.Result, result); err != nil {
					b.t.Fatal(err)
				}
			}
			return
		}
	}
}

// note keeps what went wrong in the page.
func (b *browser) note(method string, params json.RawMessage) {
	var log struct {
		Entry struct{ Level, Text, URL string }
	}
	switch {
	case method == "Runtime.exceptionThrown":
		b.errors = append(b.errors, string(params))
	case method == "Log.entryAdded" && json.Unmarshal(params, &log) == nil && log.Entry.Level == "error":
		b.errors = append(b.errors, log.Entry.Text+" "+log.Entry.URL)
	}
}

// eval is what an expression is in the page, as JSON makes it.
func (b *browser) eval(expression string) any {
	b.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, r.ExceptionDetails)
	}
	return r.Result.Value
}

// until waits until an expression is true in the page.
func (b *browser) until(expression string) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); b.eval(expression) != true; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("it never came to: %s\n%v", expression, b.eval("document.body.innerText"))
		}
	}
}

// typeText types, as a keyboard would.
func (b *browser) typeText(text string) {
	b.call("Input.insertText", map[string]any{"text": text}, nil)
}

// press presses a key and lets it go; modifiers are DevTools' bits: 1 Alt, 8 Shift.
func (b *browser) press(key, code, text string, keyCode, modifiers int) {
	for _, kind := range []string{"keyDown", "keyUp"} {
		p := map[string]any{"type": kind, "key": key, "code": code, "windowsVirtualKeyCode": keyCode, "modifiers": modifiers}
		if kind == "keyDown" && text != "" {
			p["text"] = text
		}
		b.call("Input.dispatchKeyEvent", p, nil)
	}
}

// scheme makes the page light or dark.
func (b *browser) scheme(name string) {
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": name}}}, nil)
}

// picture writes what the page looks like to a folder, if RIDGE_PICTURES names one.
func (b *browser) picture(name string) {
	dir := os.Getenv("RIDGE_PICTURES")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s.png", name)), data, 0o644)
	}
	if err != nil {
		b.t.Error(err)
	}
}
