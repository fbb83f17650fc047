package simulate

import (
	"errors"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/route/policy"
)

// TestStop: a simulation ends when it is told to, in the middle of a closed loop, of a trace, and before several replicas.
func TestStop(t *testing.T) {
	lim := backend.Limits{Tokens: 256, Seqs: 8, Logits: 8, PageSize: 16, SeqPages: 64, Pages: 256}
	for name, run := range map[string]func(Options) error{
		"as they come":  func(o Options) error { _, err := Run(o); return err },
		"a closed loop": func(o Options) error { o.Concurrency = 4; _, err := Run(o); return err },
		"replicas": func(o Options) error {
			p, err := policy.New("round_robin")
			if err != nil {
				t.Fatal(err)
			}
			_, err = RunReplicas(o, Replicas{Count: 2, Policy: p})
			return err
		},
	} {
		stop := make(chan struct{})
		began := time.Now()
		time.AfterFunc(50*time.Millisecond, func() { close(stop) })
		err := run(Options{Trace: spec(t, "poisson:rate=20,n=30000,in=100-400,out=50-200"), Limits: lim, Cost: millis, Stop: stop})
		if took := time.Since(began); !errors.Is(err, ErrStopped) || took > 30*time.Second {
			t.Errorf("%s: %v after %v", name, err, took)
		}
	}
}
