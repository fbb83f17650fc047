package main

import (
	"bytes"
	"fmt"
	"os"
	"testing"
)

// TestNoColour: what is no terminal has no colours.
func TestNoColour(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if inkOf(f) || heading(f) != f {
		t.Error("a file is coloured")
	}
	if got := ink(false).paint(red, "x"); got != "x" {
		t.Errorf("%q", got)
	}
}

// TestHeading: of a table the first line is bold, however it is written.
func TestHeading(t *testing.T) {
	var b bytes.Buffer
	w := &boldLine{out: &b}
	for _, part := range []string{"NAME  ", "SIZE\na", "  1\n", "b  2\n"} {
		if n, err := fmt.Fprint(w, part); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := "\x1b[1mNAME  SIZE\x1b[0m\na  1\nb  2\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
