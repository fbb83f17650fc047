package route

import (
	"bytes"
	"strconv"
	"time"
)

// readFigures reads the metrics of a replica, in Prometheus' text format, under the names of vLLM, SGLang and Ridge.
func readFigures(text []byte, now time.Time) figures {
	f := figures{at: now, queue: -1}
	for line := range bytes.Lines(text) {
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		name, rest := line, []byte(nil)
		if i := bytes.IndexAny(line, "{ "); i >= 0 {
			name, rest = line[:i], line[i:]
		}
		var to *float64
		switch string(name) {
		case "vllm:num_requests_running", "sglang:num_running_reqs":
			to = &f.running
		case "vllm:num_requests_waiting", "sglang:num_queue_reqs":
			to = &f.waiting
		case "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage":
			to = &f.usage
		case "ridge_queue_seconds":
			f.queue = max(f.queue, 0)
			to = &f.queue
		case "ridge_prompt_token_seconds":
			to = &f.token
		case "vllm:cache_config_info":
			f.block, f.blocks = label(rest, "block_size"), label(rest, "num_gpu_blocks")
			continue
		case "sglang:cache_config_info":
			f.block, f.blocks = label(rest, "page_size"), label(rest, "num_pages")
			continue
		default:
			continue
		}
		*to += number(rest)
	}
	return f
}

// number is the value at the end of a line, 0 if there is none that counts.
func number(line []byte) float64 {
	line = bytes.TrimSpace(line[bytes.LastIndexByte(line, '}')+1:])
	if i := bytes.IndexByte(line, ' '); i >= 0 {
		line = line[:i] // a time follows
	}
	v, err := strconv.ParseFloat(string(line), 64)
	if err != nil || !(v >= 0 && v < 1e12) {
		return 0
	}
	return v
}

// label is the whole number that a label has, 0 if it has none.
func label(line []byte, name string) int {
	_, rest, ok := bytes.Cut(line, []byte(name+`="`))
	if !ok {
		return 0
	}
	digits, _, _ := bytes.Cut(rest, []byte(`"`))
	n, err := strconv.Atoi(string(digits))
	if err != nil || n < 0 || n > 1<<31 {
		return 0
	}
	return n
}
