package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
)

// knowing drafts what comes, or what does not, and takes its time for it.
type knowing struct {
	name    string
	right   bool
	seconds float64 // for a token
	asked   int
	fails   bool
	of      func(id int64) bool // nil: for all
	closed  int
	behind  float64 // s, of a sequence that it is asked for
}

func (d *knowing) Name() string                { return d.name }
func (d *knowing) Concurrent() bool            { return true }
func (d *knowing) Seconds(seqs, n int) float64 { return d.seconds * float64(n) }
func (d *knowing) Forget(int64, []int32)       {}
func (d *knowing) Close() error                { d.closed++; return nil }
func (d *knowing) Behind(int64, int) float64   { return d.behind }
func (d *knowing) Propose(seqs []draft.Sequence) error {
	if d.fails {
		return errors.New("out of luck")
	}
	for i := range seqs {
		s := &seqs[i]
		if s.Draft = (draft.Draft{}); d.of != nil && !d.of(s.ID) {
			continue
		}
		d.asked++
		for n := range s.Max {
			id := int32(7) // see sevens
			if !d.right || (len(s.Tokens)+n)%9 == 0 {
				id = 8
			}
			s.Draft.Tokens = append(s.Draft.Tokens, id)
		}
	}
	return nil
}

// slowlyGrowing is a price of steps that hardly grows with their tokens.
type slowlyGrowing struct{}

func (slowlyGrowing) Predict(s sched.Shape) float64            { return 1 + 0.01*float64(s.Tokens) }
func (slowlyGrowing) Observe(s *graph.Step, _ float64) float64 { return 1 + 0.01*float64(s.Tokens()) }

// sevens is a request whose answer is a number of sevens, but for every ninth token of the text.
func sevens(got *collected, n int) Request {
	r := got.into(greedy([]int32{5, 6}, n))
	for i := range n {
		id := int32(7)
		if (2+i)%9 == 0 {
			id = 9
		}
		r.Forced = append(r.Forced, StepOutput{Tokens: []int32{id}})
	}
	r.Forced[n-1].Reason = "length"
	return r
}

// TestBeside: of the drafts of several drafters those are verified that bring most tokens a second: those that are looked up, where they are right; those that are computed,
// where the others are wrong or have none, and their time is worth it; and none where it is not. One that fails beside leaves the other.
func TestBeside(t *testing.T) {
	for name, c := range map[string]struct {
		main, beside *knowing
		drafted      string // by which most is
	}{
		"looked up is right":   {&knowing{name: "main", right: true, seconds: 0.2}, &knowing{name: "beside", right: true}, "beside"},
		"looked up is wrong":   {&knowing{name: "main", right: true, seconds: 0.05}, &knowing{name: "beside"}, "main"},
		"nothing is looked up": {&knowing{name: "main", right: true, seconds: 0.05}, &knowing{name: "beside", of: func(int64) bool { return false }}, "main"},
		"computed is dear":     {&knowing{name: "main", right: true, seconds: 2}, &knowing{name: "beside", right: true}, "beside"},
		"computed is behind":   {&knowing{name: "main", right: true, behind: 300}, &knowing{name: "beside"}, ""},
		"neither is worth it":  {&knowing{name: "main", right: true, seconds: 2}, &knowing{name: "beside"}, ""},
		"the one beside fails": {&knowing{name: "main", right: true, seconds: 0.05}, &knowing{name: "beside", right: true, fails: true}, "main"},
		"each for some":        {&knowing{name: "main", right: true, seconds: 0.05, of: func(id int64) bool { return id%2 == 0 }}, &knowing{name: "beside", right: true, of: func(id int64) bool { return id%2 == 1 }}, "both"},
	} {
		t.Run(name, func(t *testing.T) {
			var said []error
			e := onRef(t, true, backend.Limits{Tokens: 64, Seqs: 2, Logits: 16, PageSize: 4, SeqPages: 50, Pages: 100}, Options{
				Predictor:   slowlyGrowing{},
				Speculation: Speculation{Drafter: c.main, Beside: []draft.Drafter{c.beside}, Tokens: 4, Failed: func(err error) { said = append(said, err) }},
			})
			var got [2]collected
			for i := range got {
				if err := e.Submit(context.Background(), sevens(&got[i], 150)); err != nil {
					t.Fatal(err)
				}
			}
			steps := map[string]int{}
			for e.admit(); len(e.queue.byID) > 0; {
				mustStep(t, e)
				if all := e.Steps(1); len(all) > 0 {
					steps[all[0].Drafter]++
				}
			}
			for i := range got {
				if len(got[i].tokens) != 150 || got[i].final.Err != nil {
					t.Errorf("request %d got %d tokens (%v)", i, len(got[i].tokens), got[i].final.Err)
				}
			}
			most := ""
			for name, n := range steps {
				if n > steps[most] {
					most = name
				}
			}
			if c.drafted == "both" {
				if steps["main+beside"]+steps["beside+main"] < steps["main"]/2 {
					t.Errorf("steps by drafter: %v", steps)
				}
			} else if most != c.drafted {
				t.Errorf("steps by drafter: %v, wanted most by %q", steps, c.drafted)
			}
			if c.beside.fails && (len(said) != 1 || !strings.Contains(said[0].Error(), "beside failed") || c.beside.closed != 1) {
				t.Errorf("said: %v, closed %d times", said, c.beside.closed)
			}
		})
	}
}
