package engine

import "github.com/ridge-llm/ridge/engine/sample"

// follow adds the tokens about which the grammar leaves no choice, without a step for each: the next step computes them
// like a piece of a prompt. A text that nothing can follow ends here, with no step for its end token. Who asked for
// log-probabilities gets every token from the model, since only the model knows them.
func (r *request) follow() (sample.Reason, error) {
	if !r.Params.Logprobs {
		for _, id := range r.Grammar.Forced() {
			if err := r.Grammar.Accept(id); err != nil {
				return "", err
			}
			if reason := r.take(sample.Choice{Token: id}); reason != "" {
				return reason, nil
			}
			r.sched.Target++
		}
	}
	if r.Grammar.Closed() {
		return sample.ReasonStop, nil
	}
	return "", nil
}
