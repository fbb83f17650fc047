package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// header names the columns of a file of samples.
const header = "seconds,resident_bytes,heap_inuse_bytes,heap_alloc_bytes,goroutines,open_fds,kv_usage,idle_pages,running,waiting,steps"

// columns are the metrics of a sample, in header's order.
var columns = []string{"process_resident_memory_bytes", "go_memstats_heap_inuse_bytes", "go_memstats_heap_alloc_bytes", "go_goroutines", "process_open_fds",
	"vllm:kv_cache_usage_perc", "ridge_idle_pages", "vllm:num_requests_running", "vllm:num_requests_waiting", "ridge_steps_total"}

// Columns that are looked at one by one.
const (
	resident = iota
	heapInuse
	heapAlloc
	goroutines
	descriptors
	usage
	idle
	running
	waiting
	steps
)

// sample is the server's metrics at a time since the clients began.
type sample struct {
	at     time.Duration
	values [10]float64
}

func (x sample) String() string {
	line := strconv.Itoa(int(x.at.Seconds()))
	for _, v := range x.values {
		line += "," + strconv.FormatFloat(v, 'f', -1, 64)
	}
	return line
}

// sample reads the server's metrics.
func (s *soak) sample(ctx context.Context, at time.Duration) (x sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := get(ctx, s.url+"/metrics")
	if err != nil {
		return x, err
	}
	defer r.Body.Close()
	x.at = at
	found := 0
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		name, _, _ = strings.Cut(name, "{")
		i := slices.Index(columns, name)
		if !ok || i < 0 {
			continue
		}
		if x.values[i], err = strconv.ParseFloat(value, 64); err != nil {
			return x, fmt.Errorf("%s of /metrics: %w", name, err)
		}
		found++
	}
	if found != len(columns) {
		return x, fmt.Errorf("/metrics has %d of the %d figures that a sample needs", found, len(columns))
	}
	return x, lines.Err()
}

func get(ctx context.Context, url string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(r)
}

// thirds are the medians of a column in the middle and the last third of the samples.
func thirds(samples []sample, column int) (middle, last float64) {
	third := len(samples) / 3
	median := func(part []sample) float64 {
		var v []float64
		for _, x := range part {
			v = append(v, x.values[column])
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return median(samples[third : 2*third]), median(samples[2*third:])
}

// flat is an error unless the medians of resident memory and heap in use are at most 3 % higher in the last third than in the middle third.
func flat(samples []sample) error {
	if len(samples) < 9 {
		return fmt.Errorf("%d samples are too few to tell whether memory is flat; soak for longer, or with a shorter -every", len(samples))
	}
	for column, name := range map[int]string{resident: "resident memory", heapInuse: "heap in use"} {
		if middle, last := thirds(samples, column); last > 1.03*middle {
			return fmt.Errorf("the median of %s grew by %.1f %% from the middle third to the last: %.1f to %.1f MiB", name, 100*(last/middle-1), middle/(1<<20), last/(1<<20))
		}
	}
	return nil
}

// report prints what the clients did and the medians of both thirds.
func (s *soak) report(samples []sample) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	total := 0
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		fmt.Fprintf(w, "%d\t%s\n", s.counts[what], what)
		total += s.counts[what]
	}
	fmt.Fprintf(w, "%d\tcalls\n", total)
	w.Flush()
	if len(samples) < 3 {
		return
	}
	fmt.Fprintf(w, "median of\tmiddle third\tlast third\tlast/middle\t\n")
	for i, name := range strings.Split(header, ",")[1:] {
		middle, last := thirds(samples, i)
		fmt.Fprintf(w, "%s\t%.6g\t%.6g\t%.4f\t\n", name, middle, last, last/middle)
	}
	w.Flush()
}

// nothingLeft waits until the server has nothing to do, and is an error if it then has more goroutines or descriptors than before the clients came,
// or holds pages for requests. Lines of batches whose clients have left are worked through first; while steps are made that is waited for.
func (s *soak) nothingLeft(before sample) error {
	http.DefaultClient.CloseIdleConnections()
	var x sample
	var err error
	for quiet, made := 0, -1.0; quiet < 60; quiet++ {
		if x, err = s.sample(context.Background(), 0); err != nil {
			return err
		}
		// One connection is that of the sample itself.
		if v := x.values; v[running]+v[waiting]+v[usage] == 0 && v[goroutines] <= before.values[goroutines] && v[descriptors] <= before.values[descriptors] {
			return nil
		}
		if x.values[steps] > made {
			quiet, made = 0, x.values[steps]
		}
		time.Sleep(time.Second)
	}
	return fmt.Errorf("a minute after its last step the server has %s; before the clients came it had %s (%s)", x, before, header)
}
