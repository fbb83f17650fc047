package jinja

func filterWordWrap(r *render, value any, a args) (any, error) { return nil, fail("later") }
func filterPprint(r *render, value any, a args) (any, error)   { return nil, fail("later") }
