package serving

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ridge-llm/ridge"
)

// adapterMetrics tells which adapters have requests, as vLLM's routers read it.
type adapterMetrics struct {
	model *ridge.Model
	desc  *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (a *adapterMetrics) Describe(to chan<- *prometheus.Desc) { to <- a.desc }

// Collect implements prometheus.Collector.
func (a *adapterMetrics) Collect(to chan<- prometheus.Metric) {
	var running, waiting []string
	for _, x := range a.model.Adapters() {
		if x.Running > 0 {
			running = append(running, x.Name)
		}
		if x.Waiting > 0 {
			waiting = append(waiting, x.Name)
		}
	}
	to <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, float64(time.Now().Unix()), strings.Join(running, ","), strings.Join(waiting, ","))
}

// AdapterByID is the adapter with a number of GET /lora-adapters.
func (s *Service) AdapterByID(id int) (ridge.Adapter, bool) {
	for _, a := range s.Adapters() {
		if a.ID == id {
			return a, true
		}
	}
	return ridge.Adapter{}, false
}

// appliedScales are the scales that adapters are applied with to all requests for the model itself; see /lora-adapters.
type appliedScales struct {
	mu     sync.Mutex
	scales map[string]float32
}

// SetAppliedAdapters has adapters act on all requests that name the model and no adapter.
func (s *Service) SetAppliedAdapters(scales map[string]float32) {
	s.applied.mu.Lock()
	defer s.applied.mu.Unlock()
	s.applied.scales = scales
}

// AppliedAdapters are the adapters that act on a request which names this as its model, by name.
func (s *Service) AppliedAdapters(model string) []ridge.UseAdapter {
	if !s.Is(model) {
		return nil
	}
	s.applied.mu.Lock()
	defer s.applied.mu.Unlock()
	if len(s.applied.scales) == 0 {
		return nil
	}
	var all []ridge.UseAdapter
	for _, a := range s.Adapters() {
		if scale := s.applied.scales[a.Name]; scale != 0 {
			all = append(all, ridge.UseAdapter{Name: a.Name, Scale: scale})
		}
	}
	return all
}
