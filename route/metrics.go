package route

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the router's figures.
type metrics struct {
	handler       http.Handler
	overhead      prometheus.Observer // s
	prompts, held prometheus.Counter  // tokens
	cut           prometheus.Counter
}

func newMetrics(rt *Router) *metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &replicaMetrics{rt})
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	overhead := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "ridge_route_overhead_seconds",
		Help: "Time from a request's arrival until it was sent to a replica, its body and waiting for a replica included.", Buckets: prometheus.ExponentialBuckets(1e-5, 2, 18)})
	r.MustRegister(overhead)
	return &metrics{
		handler:  promhttp.HandlerFor(r, promhttp.HandlerOpts{}),
		overhead: overhead,
		prompts:  counter("ridge_route_prompt_tokens_total", "Tokens of prompts that were sent to replicas, counted or by their bytes."),
		held:     counter("ridge_route_held_tokens_total", "Of them, tokens that the replica was thought to have cached."),
		cut:      counter("ridge_route_broken_answers_total", "Answers that a replica broke off after they had begun."),
	}
}

// replicaMetrics are figures by replica, read when they are asked for.
type replicaMetrics struct{ rt *Router }

// replicaFigures are what there is of each.
var replicaFigures = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*worker) float64
}{
	{replicaDesc("ridge_route_replica_ready", "1 while the replica is given requests."), prometheus.GaugeValue, func(w *worker) float64 {
		if w.Status == ready.String() {
			return 1
		}
		return 0
	}},
	{replicaDesc("ridge_route_requests_total", "Requests that were sent to the replica."), prometheus.CounterValue, func(w *worker) float64 { return float64(w.Sent) }},
	{replicaDesc("ridge_route_failed_requests_total", "Requests that the replica did not begin to answer."), prometheus.CounterValue, func(w *worker) float64 { return float64(w.Failed) }},
	{replicaDesc("ridge_route_active_requests", "Requests that the replica is answering."), prometheus.GaugeValue, func(w *worker) float64 { return float64(w.Active) }},
	{replicaDesc("ridge_route_queue_seconds", "Time until the replica would begin with a new prompt, as priced."), prometheus.GaugeValue, func(w *worker) float64 { return w.Queue }},
	{replicaDesc("ridge_route_held_units", "Beginnings of prompts that the replica is thought to have cached."), prometheus.GaugeValue, func(w *worker) float64 { return float64(w.Units + w.Blocks) }},
}

func replicaDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"replica"}, nil)
}

var waitingDesc = prometheus.NewDesc("ridge_route_waiting_requests", "Requests that wait for a replica to have room.", nil, nil)

// Describe implements prometheus.Collector.
func (m *replicaMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, f := range replicaFigures {
		to <- f.desc
	}
	to <- waitingDesc
}

// Collect implements prometheus.Collector.
func (m *replicaMetrics) Collect(to chan<- prometheus.Metric) {
	for _, w := range m.rt.list() {
		for _, f := range replicaFigures {
			to <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(&w), w.URL)
		}
	}
	m.rt.mu.Lock()
	waiting := len(m.rt.queue)
	m.rt.mu.Unlock()
	to <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(waiting))
}
