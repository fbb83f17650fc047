package main

import (
	"os"
	"path/filepath"
	"strings"
)

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
