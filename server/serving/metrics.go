package serving

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ridge-llm/ridge"
)

// engineLabel numbers the engine, of which a model has one: vLLM's label for those of its data parallelism.
const engineLabel = "0"

// metrics are the server's figures, under the names that vLLM gives them (its docs, "Production Metrics"), so that
// dashboards and routers made for it work. Ridge's own begin with ridge_.
type metrics struct {
	registry         *prometheus.Registry
	ttft, itl, whole prometheus.Observer
	requests         requestMetrics
	success          *prometheus.CounterVec
	prompt, output   prometheus.Counter
}

func newMetrics(m *ridge.Model, name string) *metrics {
	r := prometheus.NewRegistry()
	labels := prometheus.Labels{"model_name": name, "engine": engineLabel}
	histogram := func(name, help string, from float64) prometheus.Observer {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, ConstLabels: labels, Buckets: prometheus.ExponentialBuckets(from, 2, 16)})
		r.MustRegister(h)
		return h
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels})
		r.MustRegister(c)
		return c
	}
	x := &metrics{
		registry: r,
		ttft:     histogram("vllm:time_to_first_token_seconds", "Time from a request's arrival to its first token.", 0.001),
		itl:      histogram("vllm:inter_token_latency_seconds", "Time between two tokens of an answer.", 0.0005),
		whole:    histogram("vllm:e2e_request_latency_seconds", "Time from a request's arrival to its end.", 0.005),
		prompt:   counter("vllm:prompt_tokens_total", "Tokens of prompts answered."),
		output:   counter("vllm:generation_tokens_total", "Tokens of answers."),
		success: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vllm:request_success_total", Help: "Answers finished.", ConstLabels: labels}, []string{"finished_reason"}),
	}
	r.MustRegister(x.success)
	x.requests = newRequestMetrics(r, labels)
	tokens := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "vllm:iteration_tokens_total", Help: "Tokens that a step of the engine computed.", ConstLabels: labels, Buckets: prometheus.ExponentialBuckets(1, 2, 15)})
	r.MustRegister(tokens)
	m.OnStep(func(s ridge.Step) { tokens.Observe(float64(s.Tokens)) })
	for _, g := range engineFigures {
		get := func() float64 { return g.value(m.Stats()) }
		if g.counter {
			r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: g.name, Help: g.help, ConstLabels: labels}, get))
			continue
		}
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: g.name, Help: g.help, ConstLabels: labels}, get))
	}
	for _, g := range priceFigures {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: g.name, Help: g.help, ConstLabels: labels}, func() float64 { return g.value(m.PriceStats()) }))
	}
	if _, cached := m.ExpertCaching(); cached {
		for _, c := range expertFigures {
			r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: c.name, Help: c.help, ConstLabels: labels}, func() float64 {
				s, _ := m.ExpertCaching()
				return float64(c.value(s))
			}))
		}
	}
	for _, g := range queueFigures {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: g.name, Help: g.help, ConstLabels: labels}, func() float64 { return g.value(m.Queue()).Seconds() }))
	}
	s := m.Stats()
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "vllm:cache_config_info", Help: "Size of the cache.", ConstLabels: prometheus.Labels{
		"model_name": name, "engine": engineLabel, "block_size": strconv.Itoa(s.PageSize), "num_gpu_blocks": strconv.Itoa(s.Pages)}})
	info.Set(1)
	for i := range s.MaxDraft {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "vllm:spec_decode_num_accepted_tokens_per_pos_total", Help: "Tokens of drafts that were accepted, by their position in the draft.",
			ConstLabels: prometheus.Labels{"model_name": name, "engine": engineLabel, "position": strconv.Itoa(i)},
		}, func() float64 { return float64(m.Stats().AcceptedAt[i]) }))
	}
	r.MustRegister(info)
	layers, _ := m.EarlyExits()
	for i, layer := range layers {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "ridge_early_exit_tokens_total", Help: "Tokens that left the model after a layer, the last one included.",
			ConstLabels: prometheus.Labels{"model_name": name, "engine": engineLabel, "layer": strconv.Itoa(layer)},
		}, func() float64 { _, tokens := m.EarlyExits(); return float64(tokens[i]) }))
	}
	if n := m.MaxAdapters(); n > 0 {
		r.MustRegister(&adapterMetrics{model: m, desc: prometheus.NewDesc("vllm:lora_requests_info", "Adapters with requests, running and waiting; the value is the time.",
			[]string{"running_lora_adapters", "waiting_lora_adapters"}, prometheus.Labels{"model_name": name, "engine": engineLabel, "max_lora": strconv.Itoa(n)})})
	}
	return x
}

// engineFigures are read off the engine when they are asked for.
var engineFigures = []struct {
	name, help string
	counter    bool
	value      func(ridge.Stats) float64
}{
	{"vllm:num_requests_running", "Requests running.", false, func(s ridge.Stats) float64 { return float64(s.Running) }},
	{"vllm:num_requests_waiting", "Requests waiting.", false, func(s ridge.Stats) float64 { return float64(s.Waiting) }},
	{"vllm:kv_cache_usage_perc", "Fraction of the KV cache in use by running requests, 0 to 1.", false, func(s ridge.Stats) float64 { return float64(s.PagesUsed) / float64(s.Pages) }},
	{"vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", true, func(s ridge.Stats) float64 { return float64(s.Queried) }},
	{"vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", true, func(s ridge.Stats) float64 { return float64(s.Found) }},
	{"ridge_prefix_cache_stranded_tokens_total", "Prompt tokens that were computed though the prefix cache had them: the state of recurrent layers, or a window, to go on from was gone.", true, func(s ridge.Stats) float64 { return float64(s.Stranded) }},
	{"ridge_kv_host_pages", "Pages of host memory for what has left the KV cache (--kv-host-memory).", false, func(s ridge.Stats) float64 { return float64(s.Kept.Pages) }},
	{"ridge_kv_host_pages_used", "Pages of host memory that hold what has left the KV cache.", false, func(s ridge.Stats) float64 { return float64(s.Kept.Used) }},
	{"ridge_kv_host_hit_tokens_total", "Prompt tokens found in host memory.", true, func(s ridge.Stats) float64 { return float64(s.Kept.Found[ridge.KeptInMemory]) }},
	{"ridge_kv_disk_hit_tokens_total", "Prompt tokens found on disk (--kv-disk).", true, func(s ridge.Stats) float64 { return float64(s.Kept.Found[ridge.KeptOnDisk]) }},
	{"ridge_kv_shared_hit_tokens_total", "Prompt tokens found in the shared folder (--kv-shared).", true, func(s ridge.Stats) float64 { return float64(s.Kept.Found[ridge.KeptShared]) }},
	{"ridge_kv_peer_hit_tokens_total", "Prompt tokens that another server had computed (--role decode).", true, func(s ridge.Stats) float64 { return float64(s.Kept.Found[ridge.KeptAtPeer]) }},
	{"ridge_kv_peer_received_bytes_total", "Bytes of pages received from other servers.", true, func(s ridge.Stats) float64 { return float64(s.Kept.Read[ridge.KeptAtPeer]) }},
	{"ridge_kv_peer_sent_bytes_total", "Bytes of pages sent to other servers (--role prefill).", true, func(s ridge.Stats) float64 { return float64(s.Kept.Written[ridge.KeptAtPeer]) }},
	{"ridge_kv_expired_leases_total", "Leases of pages for other servers that were not given back in time.", true, func(s ridge.Stats) float64 { return float64(s.Kept.Expired) }},
	{"ridge_kv_disk_read_bytes_total", "Bytes of pages read from disk.", true, func(s ridge.Stats) float64 { return float64(s.Kept.Read[ridge.KeptOnDisk]) }},
	{"ridge_kv_disk_written_bytes_total", "Bytes of pages written to disk.", true, func(s ridge.Stats) float64 { return float64(s.Kept.Written[ridge.KeptOnDisk]) }},
	{"ridge_kv_shared_read_bytes_total", "Bytes of pages read from the shared folder.", true, func(s ridge.Stats) float64 { return float64(s.Kept.Read[ridge.KeptShared]) }},
	{"ridge_kv_shared_written_bytes_total", "Bytes of pages written to the shared folder.", true, func(s ridge.Stats) float64 { return float64(s.Kept.Written[ridge.KeptShared]) }},
	{"ridge_kv_dropped_writes_total", "Pages that were not written to a folder, since too many waited.", true, func(s ridge.Stats) float64 { return float64(s.Kept.Dropped) }},
	{"ridge_kv_failed_writes_total", "Writes of pages to a folder that failed, as when a disk is full.", true, func(s ridge.Stats) float64 { return float64(s.Kept.Failed) }},
	{"ridge_kv_damaged_reads_total", "Reads of pages from a folder that were damaged, or failed, and were taken for misses.", true, func(s ridge.Stats) float64 { return float64(s.Kept.Damaged) }},
	{"ridge_states", "States of recurrent layers that there is memory for.", false, func(s ridge.Stats) float64 { return float64(s.States) }},
	{"ridge_kept_states", "States kept in the prefix cache, after beginnings that may be asked for again.", false, func(s ridge.Stats) float64 { return float64(s.StatesKept) }},
	{"ridge_stored_states", "Kept states that lie in pages of the KV cache.", false, func(s ridge.Stats) float64 { return float64(s.StatesStored) }},
	{"vllm:spec_decode_num_drafts_total", "Drafts of speculative decoding that steps verified.", true, func(s ridge.Stats) float64 { return float64(s.Drafts) }},
	{"vllm:spec_decode_num_draft_tokens_total", "Tokens in drafts of speculative decoding.", true, func(s ridge.Stats) float64 { return float64(s.DraftTokens) }},
	{"vllm:spec_decode_num_accepted_tokens_total", "Tokens of drafts that were accepted.", true, func(s ridge.Stats) float64 { return float64(s.AcceptedTokens) }},
	{"vllm:num_preemptions_total", "Preempted requests.", true, func(s ridge.Stats) float64 { return float64(s.Preemptions) }},
	{"vllm:num_requests_swapped", "Requests whose pages are in host memory.", false, func(s ridge.Stats) float64 { return float64(s.Swapped) }},
	{"vllm:cpu_cache_usage_perc", "Fraction of the swap space in use, 0 to 1.", false, func(s ridge.Stats) float64 { return float64(s.HostUsed) / float64(max(s.HostPages, 1)) }},
	{"ridge_preemptions_swapped_total", "Preemptions by swapping pages to host memory.", true, func(s ridge.Stats) float64 { return float64(s.Swaps) }},
	{"ridge_preemptions_recomputed_total", "Preemptions by recomputation.", true, func(s ridge.Stats) float64 { return float64(s.Preemptions - s.Swaps) }},
	{"ridge_swapped_out_pages_total", "Pages moved to host memory.", true, func(s ridge.Stats) float64 { return float64(s.SwappedOut) }},
	{"ridge_swapped_in_pages_total", "Pages moved back from host memory.", true, func(s ridge.Stats) float64 { return float64(s.SwappedIn) }},
	{"ridge_lora_loads_total", "Adapters put into slots of the device.", true, func(s ridge.Stats) float64 { return float64(s.AdapterLoads) }},
	{"ridge_steps_total", "Steps of the engine.", true, func(s ridge.Stats) float64 { return float64(s.Steps) }},
	{"ridge_step_tokens_total", "Tokens that steps computed.", true, func(s ridge.Stats) float64 { return float64(s.Computed) }},
	{"ridge_step_seconds", "Mean time of recent steps.", false, func(s ridge.Stats) float64 { return s.StepTime.Seconds() }},
	{"ridge_device_busy_ratio", "Fraction of the step time in which the device was busy, 0 to 1.", false, func(s ridge.Stats) float64 { return s.Busy() }},
	{"ridge_backlog_tokens", "Tokens to compute before all waiting requests have a first token.", false, func(s ridge.Stats) float64 { return float64(s.Backlog) }},
	{"ridge_idle_pages", "Pages of the prefix cache that no request uses.", false, func(s ridge.Stats) float64 { return float64(s.PagesIdle) }},
}

// queueFigures are what a router weighs replicas by.
var queueFigures = []struct {
	name, help string
	value      func(wait, token time.Duration) time.Duration
}{
	{"ridge_queue_seconds", "Time until a request that comes now would be begun with, at least, as steps are priced.", func(wait, _ time.Duration) time.Duration { return wait }},
	{"ridge_prompt_token_seconds", "What a token of a prompt takes, as steps are priced.", func(_, token time.Duration) time.Duration { return token }},
}

// priceFigures say how good predictions of steps are.
var priceFigures = []struct {
	name, help string
	value      func(ridge.PriceStats) float64
}{
	{"ridge_price_error_ratio", "Mean error of recent predicted step times, |predicted - actual| / actual.", func(s ridge.PriceStats) float64 { return s.Error }},
	{"ridge_price_predicted_seconds", "Predicted time of the last step.", func(s ridge.PriceStats) float64 { return s.Predicted }},
	{"ridge_price_actual_seconds", "Time of the last step.", func(s ridge.PriceStats) float64 { return s.Actual }},
	{"ridge_price_trusted", "1 while predictions are accurate enough to schedule steps by, else 0.", func(s ridge.PriceStats) float64 {
		if s.Trusted {
			return 1
		}
		return 0
	}},
}

// expertFigures are of experts on the CPU that the GPU has copies of (--expert-cache).
var expertFigures = []struct {
	name, help string
	value      func(ridge.ExpertCaching) int64
}{
	{"ridge_expert_cache_passes_total", "Rows through experts of layers whose experts are on the CPU (--expert-cache).", func(s ridge.ExpertCaching) int64 { return s.Passes }},
	{"ridge_expert_cache_hits_total", "Of these, rows through experts that the GPU has a copy of.", func(s ridge.ExpertCaching) int64 { return s.Hits }},
	{"ridge_expert_cache_exchanges_total", "Experts that took the place of others on the GPU, which were used less.", func(s ridge.ExpertCaching) int64 { return s.Exchanges }},
}

// token notes that a token came for a request that arrived at began; last is when the one before it did.
func (m *metrics) token(began time.Time, last *time.Time) {
	now := time.Now()
	if last.IsZero() {
		m.ttft.Observe(now.Sub(began).Seconds())
	} else {
		m.itl.Observe(now.Sub(*last).Seconds())
	}
	*last = now
}

// abandoned counts an answer that ended because its client had gone, or because of an error.
func (m *metrics) abandoned() { m.success.WithLabelValues("abort").Inc() }

func (m *metrics) finished(j *Job, f *ridge.Finish, took time.Duration) {
	m.whole.Observe(took.Seconds())
	m.success.WithLabelValues(string(f.Reason)).Inc()
	m.requests.finished(j, f)
	m.output.Add(float64(f.Output))
	if j.First {
		m.prompt.Add(float64(f.Prompt))
	}
}
