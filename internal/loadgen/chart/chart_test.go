package chart

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/internal/loadgen"
)

// TestWrite draws reports of some requests and of none.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	r := &loadgen.Report{Seconds: 1, Records: make([]loadgen.Record, 5)}
	for i := range r.Records {
		x := &r.Records[i]
		x.TTFT, x.Gaps, x.Output = time.Duration(10+i)*time.Millisecond, []time.Duration{2 * time.Millisecond, 3 * time.Millisecond}, 3
	}
	if err := Write(r, filepath.Join(dir, "a.png")); err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile(filepath.Join(dir, "a.png"))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := png.Decode(bytes.NewReader(picture)); err != nil || p.Bounds().Dx() < 1000 {
		t.Errorf("the picture: %v", err)
	}
	if err := Write(&loadgen.Report{Seconds: 1}, filepath.Join(dir, "b.svg")); err != nil {
		t.Fatal(err)
	}
	if svg, err := os.ReadFile(filepath.Join(dir, "b.svg")); err != nil || !strings.Contains(string(svg), "Time to first token (none)") {
		t.Errorf("the drawing: %v", err)
	}
	if err := Write(r, "a.gif"); err == nil || !strings.Contains(err.Error(), ".png and .svg") {
		t.Errorf("an unknown format: %v", err)
	}
}
