package price

// PredictSample is what the profile's fit says of a sample, s.
func (p *Profile) PredictSample(s Sample) (float64, error) {
	t, err := p.complete().terms(s)
	return t.cost.seconds, err
}
