package main

import (
	"bytes"
	"context"
	"encoding/json"
	goflag "flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/internal/builtin"
	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/internal/testkit/fakehub"
)

// readmeLine finds the README's command lines.
var readmeLine = regexp.MustCompile(`(?m)^    ((?:git diff \| )?ridge .*)$`)

// allLines has the lines run too that take a while: go test ./cmd/ridge -run TestREADME -readme.
var allLines = goflag.Bool("readme", false, "run the lines of the README too that measure")

// longLines are those.
var longLines = regexp.MustCompile(`ridge (bench|calibrate|dummy|quantize|cascade tune|roofline model|eval|plan llama-3.1-70b|run --lora)`)

// typed is what is typed where a command asks, or chats.
var typed = map[string]string{"ridge run": "/bye\r", "ridge rm Qwen/Qwen3-0.6B-GGUF": "y\r"}

// TestREADME runs every command line of the README as it stands, in a folder where the files that it names are, with a hub that has the built-in model under every name. A line
// that serves has done so when it has answered a request; GPUs are a stand-in whose kernels do nothing.
func TestREADME(t *testing.T) {
	if testing.Short() {
		t.Skip("this takes half a minute")
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := readmeFolder(t)
	hub := fakehub.New(t, map[string][]byte{"model-Q4_K_M.gguf": builtin.GGUF(), "model-Q8_0.gguf": builtin.GGUF(), "model-MXFP4.gguf": builtin.GGUF()})
	hub.Any = true
	env := append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir+"/config", "XDG_CACHE_HOME="+dir+"/cache", "XDG_DATA_HOME="+dir+"/data", "HF_HOME="+dir+"/hf", "HF_ENDPOINT="+hub.URL,
		"RIDGE_PORT=0", "TERM=xterm")
	lines := readmeLine.FindAllStringSubmatch(string(text), -1)
	if len(lines) < 50 {
		t.Fatalf("the README has %d command lines", len(lines))
	}
	driver := ""
	if _, err := exec.LookPath("cc"); err == nil {
		driver = standIn(t)
	}
	for _, m := range lines {
		line, _, _ := strings.Cut(m[1], "  #")
		for _, part := range strings.Split(strings.TrimSpace(line), "; ") {
			t.Run(part, func(t *testing.T) {
				if !*allLines && longLines.MatchString(part) {
					t.Skip("this takes a while; -readme runs it")
				}
				if strings.HasPrefix(part, "ridge quantize") {
					t.Skip("the model that is here has rows of 32 numbers, which its groups of 128 do not divide")
				}
				if err := os.WriteFile(filepath.Join(dir, "model.gguf"), builtin.GGUF(), 0o600); err != nil { // a line converts to that name
					t.Fatal(err)
				}
				c := &readmeCommand{T: t, dir: dir, env: env, line: part}
				if strings.Contains(part, "--backend cuda") {
					if driver == "" {
						t.Skip("the stand-in for NVIDIA's driver is made with a C compiler")
					}
					c.env = append(c.env[:len(c.env):len(c.env)], "LD_LIBRARY_PATH="+driver)
				}
				c.run()
			})
		}
	}
}

// readmeFolder has the files that the README names.
func readmeFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name string, data []byte) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"model.gguf", "small.gguf", "large.gguf"} {
		put(name, builtin.GGUF())
	}
	masked, err := os.ReadFile("../../internal/builtin/diffusion.gguf")
	if err != nil {
		t.Fatal(err)
	}
	put("LLaDA-8B-Instruct", masked)
	vocab := map[string]int{"Ġ": 0, "Ċ": 1}
	for c := '!'; c <= '~'; c++ {
		vocab[string(c)] = len(vocab)
	}
	tokenizer, err := json.Marshal(map[string]any{
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false},
		"decoder":       map[string]any{"type": "ByteLevel"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, small := range map[string]string{"llama-8b": "llama-default", "path/to/hf-model": "llama-default", "moe": "mixtral-window"} {
		put(name+"/tokenizer.json", tokenizer)
		put(name+"/tokenizer_config.json", []byte(`{"chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"}`))
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS("../../internal/check/testdata/"+small)); err != nil {
			t.Fatal(err)
		}
	}
	kind, err := convert.ParseType("F16")
	if err == nil {
		_, err = convert.Convert(t.Context(), filepath.Join(dir, "moe"), filepath.Join(dir, "moe.gguf"), convert.Options{Type: kind})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sql-adapter", "adapters/pirate", "adapters/sql"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS("../../adapters/pirate")); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range map[string]string{
		"person.json":                `{"type": "object", "properties": {"name": {"type": "string"}, "year": {"type": "integer"}}, "required": ["name", "year"]}`,
		"Modelfile":                  "FROM ./model.gguf\nSYSTEM You are Mario.\n",
		"keys.txt":                   "sk-one name=team-a\n",
		"prompts.jsonl":              "{\"prompt\": \"Who are you?\"}\n{\"prompt\": \"What is a KV cache?\"}\n{\"prompt\": \"Tell me a story.\"}\n",
		"requests.csv":               "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44\n2023-11-16 18:15:50.95,396,109\n",
		"wiki.test.raw":              strings.Repeat("Once upon a time there was a fox named Pip who lived in a small house by the sea. ", 60),
		"chat_template.jinja":        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}",
		"context.json":               `{"messages": [{"role": "user", "content": "hi"}]}`,
		"mmlu/test/numbers_test.csv": "What is 1 + 1?,1,2,3,4,B\n", "mmlu/dev/numbers_dev.csv": strings.Repeat("What is 1 + 1?,1,2,3,4,B\n", 5),
	} {
		put(name, []byte(data))
	}
	return dir
}

// readmeCommand is a command line that is run.
type readmeCommand struct {
	*testing.T
	dir, line string
	env       []string
}

func (c *readmeCommand) run() {
	began := time.Now()
	defer func() { c.Logf("%v", time.Since(began).Round(10*time.Millisecond)) }()
	if keys := typed[c.line]; keys != "" {
		args := strings.Fields(c.line)
		x, cmd := onTerminal(c.T, append(c.env, "PWD="+c.dir), args[1:]...)
		if x == nil {
			return
		}
		asks := ">>> "
		if args[1] == "rm" {
			asks = "[y/N] "
		}
		x.until(asks)
		x.write(keys)
		if err := cmd.Wait(); err != nil {
			c.Error(err)
		}
		return
	}
	ctx, cancel := context.WithTimeout(c.Context(), 5*time.Minute) // a guard against hanging only
	defer cancel()
	if strings.HasPrefix(c.line, "ridge ps") {
		address, stop := c.serve(ctx, "ridge serve model.gguf --port 0")
		defer stop()
		c.line += " --url " + address
	}
	if strings.HasPrefix(c.line, "ridge serve") || strings.HasPrefix(c.line, "ridge route") {
		address, stop := c.serve(ctx, c.line)
		if address != "" && !strings.Contains(c.line, "cuda") && strings.HasPrefix(c.line, "ridge serve") {
			c.ask(address)
		}
		stop()
		return
	}
	cmd := c.command(ctx, c.line)
	cmd.Stdin = strings.NewReader("")
	if out, err := cmd.CombinedOutput(); err != nil {
		c.Errorf("%v\n%s", err, out)
	}
}

func (c *readmeCommand) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env, cmd.WaitDelay = c.dir, c.env, time.Minute
	return cmd
}

// logged takes what a server logs.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

var servedAt = regexp.MustCompile(`http://[^\s/"]+:[0-9]+`)

// serve starts a server, waits until it serves, and gives its address; stop ends it. Where the port that the line names is another's, there is no address.
func (c *readmeCommand) serve(ctx context.Context, line string) (address string, stop func()) {
	c.Helper()
	cmd := c.command(ctx, "exec "+line)
	log := &logged{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		c.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for address == "" {
		select {
		case err := <-ended:
			if strings.Contains(log.String(), "address already in use") {
				c.Skip("the port of this line is in use on this machine")
			}
			c.Fatalf("%v\n%s", err, log)
		case <-time.After(20 * time.Millisecond):
			for said := range strings.Lines(log.String()) {
				if strings.Contains(said, "serving") || strings.Contains(said, "routing") {
					address = servedAt.FindString(said)
				}
			}
		}
	}
	return strings.Replace(address, "0.0.0.0", "127.0.0.1", 1), func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil && cmd.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) {
			c.Errorf("%v\n%s", err, log)
		}
	}
}

// ask has the server answer a request.
func (c *readmeCommand) ask(address string) {
	c.Helper()
	key := ""
	if _, rest, ok := strings.Cut(c.line, "--api-key "); ok {
		key = strings.Fields(rest)[0]
	}
	do := func(method, path, body string) (int, []byte) {
		r, err := http.NewRequestWithContext(c.Context(), method, address+path, strings.NewReader(body))
		if err != nil {
			c.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			c.Fatal(err)
		}
		defer answer.Body.Close()
		data, err := io.ReadAll(answer.Body)
		if err != nil {
			c.Fatal(err)
		}
		return answer.StatusCode, data
	}
	var list struct{ Data []struct{ ID string } }
	for end := time.Now().Add(2 * time.Minute); len(list.Data) == 0 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // the model may be loading
		_, data := do(http.MethodGet, "/v1/models", "")
		_ = json.Unmarshal(data, &list)
	}
	if len(list.Data) == 0 {
		c.Fatal("no models are listed")
	}
	body := fmt.Sprintf(`{"model": %q, "max_tokens": 3, "messages": [{"role": "user", "content": "Hi"}]}`, list.Data[0].ID)
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		status, data := do(http.MethodPost, "/v1/chat/completions", body)
		if status == http.StatusOK {
			return
		}
		if status != http.StatusServiceUnavailable || time.Now().After(end) {
			c.Fatalf("%d %s", status, data)
		}
	}
}
