package price

import "github.com/ridge-llm/ridge/graph"

// TimedStep is a whole step of a program that was timed.
type TimedStep struct {
	Step    *graph.Step
	Seconds float64
}

// FitSteps brings p.Fit, whose launches were timed one by one, to how they run in a program: it scales all launch times
// alike and sets what a step takes beside its nodes.
func (p *Profile) FitSteps(g *graph.Graph, timed []TimedStep) error {
	m, err := New(g, p)
	if err != nil {
		return err
	}
	var rows [][]float64
	for _, t := range timed {
		bill := m.Bill(t.Step)
		launch := bill.By[ByLaunch]
		left := t.Seconds - (bill.Seconds - bill.Host - launch)
		if left = max(left, t.Seconds/100); launch > 0 {
			rows = append(rows, []float64{launch / left, 1 / left})
		}
	}
	x := LeastSquares(rows, 2)
	p.Fit.scaleLaunches(x[0])
	p.Fit.Step = x[1]
	return nil
}

func (f *Fit) scaleLaunches(by float64) {
	for format, c := range f.Linear {
		c.Launch *= by
		f.Linear[format] = c
	}
	for op, c := range f.Rows {
		c.Launch *= by
		f.Rows[op] = c
	}
	f.Attention.Launch *= by
}
