package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"
)

// input reads messages from a terminal, with line editing and a history that outlives the program.
type input struct {
	in       *os.File
	terminal *term.Terminal
	keys     *keys
	history  *history
}

// errInterrupt is Ctrl-C at the prompt.
var errInterrupt = errors.New("interrupted")

// keys passes what is typed on and notes a Ctrl-C, which the line editor would take for the end of input.
type keys struct {
	io.Reader
	interrupted bool
}

// Read implements io.Reader.
func (k *keys) Read(p []byte) (int, error) {
	n, err := k.Reader.Read(p)
	for _, b := range p[:n] {
		k.interrupted = k.interrupted || b == 3
	}
	return n, err
}

func newInput(in, out *os.File) *input {
	k := &keys{Reader: in}
	i := &input{in: in, keys: k, history: openHistory()}
	i.terminal = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{k, out}, "")
	i.terminal.History = i.history
	if width, height, err := term.GetSize(int(out.Fd())); err == nil && width > 0 {
		_ = i.terminal.SetSize(width, height) // a wrong width only wraps badly
	}
	return i
}

// read reads one message: a line, lines that end in a backslash, or all between two lines of three quotes.
func (i *input) read(prompt string) (string, error) {
	line, err := i.line(prompt)
	if err != nil {
		return "", err
	}
	const quotes = `"""`
	if rest, ok := strings.CutPrefix(line, quotes); ok {
		for !strings.HasSuffix(rest, quotes) {
			more, err := i.line("... ")
			if err != nil {
				return "", err
			}
			rest += "\n" + more
		}
		return strings.TrimSuffix(rest, quotes), nil
	}
	for strings.HasSuffix(line, `\`) {
		more, err := i.line("... ")
		if err != nil {
			return "", err
		}
		line = strings.TrimSuffix(line, `\`) + "\n" + more
	}
	return line, nil
}

// line reads one line; the terminal is raw only meanwhile, so that Ctrl-C is a signal while an answer comes.
func (i *input) line(prompt string) (string, error) {
	old, err := term.MakeRaw(int(i.in.Fd()))
	if err != nil {
		return "", err
	}
	defer term.Restore(int(i.in.Fd()), old)
	i.keys.interrupted = false
	i.terminal.SetPrompt(prompt)
	i.terminal.SetBracketedPasteMode(true)
	defer i.terminal.SetBracketedPasteMode(false)
	line, err := i.terminal.ReadLine()
	switch {
	case errors.Is(err, term.ErrPasteIndicator):
		return line, nil
	case errors.Is(err, io.EOF) && i.keys.interrupted:
		return "", errInterrupt
	}
	return line, err
}

func (i *input) close() { i.history.save() }

// history is the lines typed before, newest last.
type history struct {
	file  string // "": not kept
	lines []string
}

const keptLines = 500

// openHistory reads the lines of earlier sessions; where there is no place for them, the history is this session's.
func openHistory() *history {
	dir, err := os.UserCacheDir()
	if err != nil {
		return &history{}
	}
	h := &history{file: filepath.Join(dir, "ridge", "history")}
	if data, err := os.ReadFile(h.file); err == nil {
		h.lines = strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	}
	return h
}

// Add implements term.History.
func (h *history) Add(line string) {
	if line == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	h.lines = h.lines[max(0, len(h.lines)-keptLines):]
}

// Len implements term.History.
func (h *history) Len() int { return len(h.lines) }

// At implements term.History: 0 is the newest.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

// save keeps the lines for the next session; losing them is no reason to fail.
func (h *history) save() {
	if h.file == "" || len(h.lines) == 0 || os.MkdirAll(filepath.Dir(h.file), 0o700) != nil {
		return
	}
	_ = os.WriteFile(h.file, []byte(strings.Join(h.lines, "\n")+"\n"), 0o600)
}
