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
}

// paidFor is a knowing drafter that computes on the device.
type paidFor struct {
	*knowing
	behind float64 // s, of a sequence that it is asked for
}

func (paidFor) Concurrent() bool            { return false }
func (d paidFor) Behind(int64, int) float64 { return d.behind }

func (d *knowing) Name() string                { return d.name }
func (d *knowing) Concurrent() bool            { return true }
func (d *knowing) Seconds(seqs, n int) float64 { return d.seconds * float64(n) }
func (d *knowing) Forget(int64, []int32)       {}
func (d *knowing) Close() error                { d.closed++; return nil }
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
// where the others are wrong or have none, and their time is worth it; of several that are computed, the one that is right and takes less; and none where it is not worth it. One that
// fails, first or beside, leaves the other.
func TestBeside(t *testing.T) {
	even, odd := func(id int64) bool { return id%2 == 0 }, func(id int64) bool { return id%2 == 1 }
	for name, c := range map[string]struct {
		main, beside *knowing
		behind       float64
		both         bool   // are computed
		drafted      string // by which most is
	}{
		"looked up is right":   {main: &knowing{right: true, seconds: 0.2}, beside: &knowing{right: true}, drafted: "beside"},
		"looked up is wrong":   {main: &knowing{right: true, seconds: 0.05}, beside: &knowing{}, drafted: "main"},
		"nothing is looked up": {main: &knowing{right: true, seconds: 0.05}, beside: &knowing{of: func(int64) bool { return false }}, drafted: "main"},
		"computed is dear":     {main: &knowing{right: true, seconds: 2}, beside: &knowing{right: true}, drafted: "beside"},
		"computed is behind":   {main: &knowing{right: true}, behind: 300, beside: &knowing{}},
		"neither is worth it":  {main: &knowing{right: true, seconds: 2}, beside: &knowing{}},
		"the one beside fails": {main: &knowing{right: true, seconds: 0.05}, beside: &knowing{right: true, fails: true}, drafted: "main"},
		"the first fails":      {main: &knowing{right: true, seconds: 0.05, fails: true}, beside: &knowing{right: true, of: odd}, drafted: "beside"},
		"each for some":        {main: &knowing{right: true, seconds: 0.05, of: even}, beside: &knowing{right: true, of: odd}, drafted: "both"},
		"two, one is wrong":    {main: &knowing{seconds: 0.02}, beside: &knowing{right: true, seconds: 0.05}, both: true, drafted: "beside"},
		"two, one is dear":     {main: &knowing{right: true, seconds: 0.3}, beside: &knowing{right: true, seconds: 0.05}, both: true, drafted: "beside"},
		"two, each for some":   {main: &knowing{right: true, seconds: 0.03, of: even}, beside: &knowing{right: true, seconds: 0.03, of: odd}, both: true, drafted: "both"},
		"two, both are wrong":  {main: &knowing{seconds: 0.05}, beside: &knowing{seconds: 0.05}, both: true},
	} {
		t.Run(name, func(t *testing.T) {
			var said []error
			c.main.name, c.beside.name = "main", "beside"
			var beside draft.Drafter = c.beside
			if c.both {
				beside = paidFor{knowing: c.beside}
			}
			e := onRef(t, true, backend.Limits{Tokens: 64, Seqs: 2, Logits: 16, PageSize: 4, SeqPages: 50, Pages: 100}, Options{
				Predictor:   slowlyGrowing{},
				Speculation: Speculation{Drafter: paidFor{c.main, c.behind}, Beside: []Beside{{Drafter: beside}}, Tokens: 4, Failed: func(err error) { said = append(said, err) }},
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
			if c.main.fails { // one request has no drafts at all
				delete(steps, "")
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
			for _, d := range []*knowing{c.main, c.beside} {
				if d.fails && (len(said) != 1 || !strings.Contains(said[0].Error(), d.name+" failed") || d.closed != 1) {
					t.Errorf("said: %v, closed %d times", said, d.closed)
				}
			}
		})
	}
}
