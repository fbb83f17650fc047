package serving

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ridge-llm/ridge"
)

// requestMetrics are the distributions of what requests asked for, got and took, by vLLM's names.
type requestMetrics struct {
	prompt, output, choices, limit              prometheus.Observer // tokens; answers; most tokens of an answer
	perToken, queue, prefill, decode, inference prometheus.Observer // s
}

func newRequestMetrics(r *prometheus.Registry, labels prometheus.Labels) requestMetrics {
	histogram := func(name, help string, buckets []float64) prometheus.Observer {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "vllm:" + name, Help: help, ConstLabels: labels, Buckets: buckets})
		r.MustRegister(h)
		return h
	}
	tokens, seconds := prometheus.ExponentialBuckets(1, 2, 18), prometheus.ExponentialBuckets(0.001, 2, 20)
	return requestMetrics{
		prompt:    histogram("request_prompt_tokens", "Tokens of a request's prompt.", tokens),
		output:    histogram("request_generation_tokens", "Tokens of a request's answer.", tokens),
		choices:   histogram("request_params_n", "Answers that a request asks for.", prometheus.ExponentialBuckets(1, 2, 8)),
		limit:     histogram("request_params_max_tokens", "The most tokens that a request allows its answer, where it says.", tokens),
		perToken:  histogram("time_per_output_token_seconds", "Mean time of a token of an answer behind its first.", prometheus.ExponentialBuckets(0.0005, 2, 16)),
		queue:     histogram("request_queue_time_seconds", "Time that a request waited for its first step.", seconds),
		prefill:   histogram("request_prefill_time_seconds", "Time from a request's first step to its first token.", seconds),
		decode:    histogram("request_decode_time_seconds", "Time from a request's first token to its last.", seconds),
		inference: histogram("request_inference_time_seconds", "Time from a request's first step to its last token.", seconds),
	}
}

func (m *requestMetrics) finished(j *Job, f *ridge.Finish) {
	prefill := max(f.Prefill-f.Queued(), 0)
	m.prompt.Observe(float64(f.Prompt))
	m.output.Observe(float64(f.Output))
	if j.First {
		m.choices.Observe(float64(max(j.Choices, 1)))
	}
	if j.Params.MaxTokens > 0 {
		m.limit.Observe(float64(j.Params.MaxTokens))
	}
	if f.Output > 1 {
		m.perToken.Observe(f.Decode.Seconds() / float64(f.Output-1))
	}
	m.queue.Observe(f.Queued().Seconds())
	m.prefill.Observe(prefill.Seconds())
	m.decode.Observe(f.Decode.Seconds())
	m.inference.Observe((prefill + f.Decode).Seconds())
}
