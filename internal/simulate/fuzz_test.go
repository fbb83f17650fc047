package simulate

import (
	"bytes"
	"testing"

	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/internal/recording"
)

// FuzzRecording: any file is refused as a recording, or what is there of it is replayed to an end.
func FuzzRecording(f *testing.F) {
	for _, policy := range []sched.Policy{sched.FCFS, sched.ByPriority} {
		for _, ahead := range []bool{false, true} {
			var file bytes.Buffer
			w := recording.NewWriter(&file, nil)
			o := Options{Trace: spec(f, "gamma:rate=3,n=3,in=5-40,out=1-9"), Limits: limits, Cost: millis, RunsAhead: ahead}
			o.Limits.Pages = 90
			o.Engine.Policy, o.Engine.Index, o.Engine.Recorder = policy, "radix", w
			if err := w.Begin(recording.NewHeader("test", small, o.Limits, o.Engine, ahead)); err != nil {
				f.Fatal(err)
			}
			if _, err := Run(o); err != nil {
				f.Fatal(err)
			}
			if err := w.Close(); err != nil {
				f.Fatal(err)
			}
			f.Add(file.Bytes())
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := ReadRecording("test", bytes.NewReader(file))
		if err != nil {
			return
		}
		if l := r.Limits; max(l.Tokens, l.Seqs, l.Logits, l.Pages, l.PageSize, l.SeqPages, l.SwapPages) > 1<<12 || l.Pages*l.PageSize > 1<<16 {
			return // a machine of that size may be; here it would take long
		}
		if c, _, err := Replay(r); err == nil && (c.Same > c.Steps || c.Differs == "" && c.Same != c.Steps) {
			t.Errorf("%d of %d steps are the same, %q differs", c.Same, c.Steps, c.Differs)
		}
	})
}
