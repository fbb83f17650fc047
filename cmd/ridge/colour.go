package main

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/term"
)

// ink is whether text is coloured.
type ink bool

// inkOf is whether text for a file is: if it is a terminal, unless NO_COLOR (no-color.org) or the terminal's kind says otherwise.
func inkOf(f *os.File) ink {
	return ink(os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd())))
}

const (
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	plain = "\x1b[0m"
)

// paint is a text in a colour.
func (i ink) paint(colour, text string) string {
	if !i {
		return text
	}
	return colour + text + plain
}

// heading is a writer of a table whose first line is bold where out is a terminal that shows it.
func heading(out io.Writer) io.Writer {
	if f, ok := out.(*os.File); ok && bool(inkOf(f)) {
		return &boldLine{out: out}
	}
	return out
}

// boldLine has the first line in bold. The columns have been aligned before: their widths count no colours.
type boldLine struct {
	out  io.Writer
	done bool
	head bytes.Buffer
}

// Write implements io.Writer.
func (b *boldLine) Write(p []byte) (int, error) {
	if b.done {
		return b.out.Write(p)
	}
	b.head.Write(p)
	line, rest, whole := bytes.Cut(b.head.Bytes(), []byte("\n"))
	if !whole {
		return len(p), nil
	}
	b.done = true
	_, err := b.out.Write(append([]byte(ink(true).paint(bold, string(line))+"\n"), rest...))
	return len(p), err
}
