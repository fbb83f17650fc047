package price

import "github.com/ridge-llm/ridge/graph"

// Explain is Predict by what the time is spent on, s. It allocates nothing.
func (m *Model) Explain(s *graph.Step) (by [Causes]float64) {
	l := m.measure(s)
	set := m.workingSet(&l)
	m.mu.Lock()
	factor := m.correct[m.kind(&l)].factor
	m.mu.Unlock()
	for _, x := range m.groups {
		c := m.cost(x, &l, set)
		nodes := float64(len(x.nodes))
		by[ByLaunch] += factor[launchPart] * nodes * c.launch
		by[causeOf(c.bound(), &c.work)] += factor[x.part(&c)] * nodes * (c.seconds - c.launch)
	}
	by[ByHost] = factor[hostPart] * m.host(&l)
	return by
}

// Floor is the roofline of a step: the least it can take, s.
func (m *Model) Floor(s *graph.Step) float64 {
	l := m.measure(s)
	set, sum := m.workingSet(&l), 0.0
	for _, x := range m.groups {
		c := m.cost(x, &l, set)
		sum += c.floor() * float64(len(x.nodes))
	}
	return sum
}
