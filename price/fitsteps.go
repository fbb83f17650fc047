package price

import "github.com/ridge-llm/ridge/graph"

// TimedStep is a whole step of a program that was timed, without sampling.
type TimedStep struct {
	Step    *graph.Step
	Seconds float64
}

// FitSteps adapts p.Fit, whose launches were timed one by one, to whole programs: it scales all launch times by one factor and fits the
// CPU time of a step. Of a device that Replays, replayed steps are fitted separately.
func (p *Profile) FitSteps(g *graph.Graph, timed []TimedStep) error {
	p.Fit.Replay = 1
	m, err := New(g, p)
	if err != nil {
		return err
	}
	var all [2][][]float64
	for _, t := range timed {
		kind := 0
		if l := m.measure(t.Step); m.replays(&l) {
			kind = 1
		}
		breakdown := m.Breakdown(t.Step)
		launch := breakdown.By[ByLaunch]
		left := t.Seconds - (breakdown.Seconds - breakdown.Host - launch)
		if left = max(left, t.Seconds/100); launch > 0 {
			all[kind] = append(all[kind], []float64{launch / left, 1 / left})
		}
	}
	const least = 1e-3 // of launches, so that the factor of replayed ones is defined
	x := LeastSquares(all[0], 2)
	scale := max(x[0], least)
	p.Fit.scaleLaunches(scale)
	p.Fit.Step = x[1]
	if len(all[1]) > 0 {
		x = LeastSquares(all[1], 2)
		p.Fit.Replay, p.Fit.ReplayStep = x[0]/scale, x[1]
	}
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
