package engine

import "github.com/ridge-llm/ridge/engine/sample"

// jumpForward adds the tokens about which the grammar leaves no choice, without a step for each (SGLang's jump-forward decoding): the
// next step computes them like a piece of a prompt. A text that nothing can follow ends here, with no step for its end token. A request
// for log-probabilities gets every token from the model, since only the model knows them.
func (r *request) jumpForward() (sample.Reason, error) {
	if !r.Params.Logprobs {
		for _, id := range r.Grammar.Forced() {
			if err := r.Grammar.Accept(id); err != nil {
				return "", err
			}
			if reason := r.take(sample.Choice{Token: id}); reason != "" {
				return reason, nil
			}
		}
	}
	if r.Grammar.Closed() {
		return sample.ReasonStop, nil
	}
	return "", nil
}
