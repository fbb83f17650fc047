package main

import (
	"errors"
	"io"
	"os"
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

// keys passes what is typed on. The line editor takes Ctrl-C for the end of all input, so it sees the end of a line
// instead, and the Ctrl-C is noted here.
type keys struct {
	io.Reader
	interrupted bool
}

// Read implements io.Reader.
func (k *keys) Read(p []byte) (int, error) {
	n, err := k.Reader.Read(p)
	for i, b := range p[:n] {
		if b == ctrlC {
			p[i], k.interrupted = '\r', true
		}
	}
	return n, err
}

const ctrlC = 3

func newInput(in, out *os.File) *input {
	k := &keys{Reader: in}
	i := &input{in: in, keys: k, history: openHistory()}
	i.terminal = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{k, out}, "")
	i.terminal.History = i.history
	i.terminal.AutoCompleteCallback = (&completion{history: i.history}).complete
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
	if i.keys.interrupted {
		return "", errInterrupt
	}
	if errors.Is(err, term.ErrPasteIndicator) { // the line was pasted, which is all the same here
		err = nil
	}
	return line, err
}

func (i *input) close() { i.history.save() }
