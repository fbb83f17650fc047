package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/recording"
	"github.com/ridge-llm/ridge/internal/simulate"
	"github.com/ridge-llm/ridge/internal/trace"
	"github.com/ridge-llm/ridge/price"
)

// TestLearnFrom: a server whose steps take twice their price is learnt from its recording, and one that does not replay is refused.
func TestLearnFrom(t *testing.T) {
	var f simulateFlags
	f.shape.kvType = graph.F16
	m, err := f.shape.model("")
	if err != nil {
		t.Fatal(err)
	}
	p, err := price.Device("zen5")
	if err != nil {
		t.Fatal(err)
	}
	g, err := f.shape.graph(m, p.ActType())
	if err != nil {
		t.Fatal(err)
	}
	truth, err := price.New(g, p)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w := recording.NewWriter(&file, nil)
	o := simulate.Options{Limits: backend.Limits{Tokens: 256, Seqs: 8, Logits: 8, Pages: 512, PageSize: 16, SeqPages: 64}}
	if o.Trace, err = trace.Spec("poisson:rate=50,n=60,in=20-200,out=5-40"); err != nil {
		t.Fatal(err)
	}
	o.Cost = func(s *graph.Step) float64 { return 2 * truth.Predict(s) }
	o.Engine.Policy, o.Engine.Index, o.Engine.Recorder = "fcfs", "radix", w
	if err := w.Begin(recording.NewHeader("test", 256, o.Limits, o.Engine, false)); err != nil {
		t.Fatal(err)
	}
	if _, err := simulate.Run(o); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "run.jsonl")
	write := func(data string) {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file.String())
	f.learn = []string{name, name}
	if err := f.learnFrom(g, p); err != nil {
		t.Fatal(err)
	}
	for _, renew := range f.renew {
		if err := renew(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []graph.Step{
		{Logits: 1, Seqs: []graph.Seq{{New: 1, Past: 100}}},
		{Logits: 3, Seqs: []graph.Seq{{New: 1, Past: 150}, {New: 1, Past: 80}, {New: 120}}},
	} {
		if got := f.options.Cost(&s) / truth.Predict(&s); got < 1.9 || got > 2.1 {
			t.Errorf("a step of %d tokens is learnt to take %.2f times its price; those recorded took twice", s.Tokens(), got)
		}
	}
	changed := strings.Replace(file.String(), `"chunks":[[0,`, `"chunks":[[0,1`, 1)
	write(changed)
	if err := f.learnFrom(g, p); err == nil || !strings.Contains(err.Error(), "or some were changed") {
		t.Errorf("a recording that was changed: %v", err)
	}
	write(changed[:strings.LastIndex(strings.TrimSpace(changed), "\n")+1]) // without the line that has its checksum
	if err := f.learnFrom(g, p); err == nil || !strings.Contains(err.Error(), "does not replay") {
		t.Errorf("a recording that was changed, without its end: %v", err)
	}
}
