package route

import (
	"strings"
	"testing"
	"time"
)

// TestFigures: the figures of Ridge, vLLM and SGLang are read; nothing else is a number.
func TestFigures(t *testing.T) {
	now := time.Unix(5, 0)
	for text, want := range map[string]figures{
		"": {queue: -1},
		"# HELP vllm:num_requests_waiting x\nvllm:num_requests_waiting{model_name=\"a\"} 3\nvllm:num_requests_waiting{model_name=\"b\"} 4.0 1234\nvllm:num_requests_running 2\n" +
			"vllm:cache_config_info{block_size=\"16\",x=\"y\",num_gpu_blocks=\"1000\"} 1\nvllm:kv_cache_usage_perc{} 0.5": {waiting: 7, running: 2, usage: 0.5, block: 16, blocks: 1000, queue: -1},
		"sglang:num_queue_reqs{} 1\nsglang:cache_config_info{num_pages=\"10\",page_size=\"1\"} 1\nsglang:token_usage 0.25\n":        {waiting: 1, block: 1, blocks: 10, usage: 0.25, queue: -1},
		"ridge_queue_seconds{model_name=\"}\"} 0.5\nridge_prompt_token_seconds 1e-4\n":                                              {queue: 0.5, token: 1e-4},
		"ridge_queue_seconds NaN\nvllm:num_requests_waiting -1\nvllm:num_requests_running\nvllm:cache_config_info{block_size=\"x\n": {queue: 0},
	} {
		want.at = now
		if got := readFigures([]byte(text), now); got != want {
			t.Errorf("%q: %+v, %+v wanted", text, got, want)
		}
	}
}

func FuzzFigures(f *testing.F) {
	f.Add("vllm:num_requests_waiting{a=\"b\"} 1\n")
	f.Add("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"")
	f.Fuzz(func(t *testing.T, text string) {
		g := readFigures([]byte(text), time.Time{})
		if !(g.waiting >= 0 && g.running >= 0 && g.token >= 0 && g.queue >= -1) || g.block < 0 || g.blocks < 0 {
			t.Errorf("%q: %+v", text, g)
		}
	})
}

// TestWhole: of a stream only whole events are passed on, wherever what comes is divided.
func TestWhole(t *testing.T) {
	text := "data: 1\n\nevent: a\r\ndata: 2\r\n\r\ndata: 3\n\n"
	ends := []int{0, 9, 30, 39}
	for first := 0; first <= len(text); first++ {
		for second := first; second <= len(text); second++ {
			e := events{kind: sse}
			at := 0
			for _, part := range []string{text[:first], text[first:second], text[second:]} {
				e.add(copy(e.space(), part))
				n := len(e.whole(false))
				e.passed(n)
				at += n
				for i, end := range ends {
					if come := at + len(e.data); come >= end && (i+1 == len(ends) || come < ends[i+1]) && at != end {
						t.Fatalf("%d bytes came in %d, %d: %d were passed on", come, first, second, at)
					}
				}
			}
		}
	}
	e := events{kind: sse}
	e.add(copy(e.space(), "data: "))
	for len(e.data) <= largeItem {
		if e.whole(false) != nil {
			t.Fatal("part of an event was passed on")
		}
		e.add(copy(e.space(), strings.Repeat("x", chunk)))
	}
	if e.whole(false) == nil || e.end("/", "x") != nil {
		t.Error("a very large event is kept, or ended by another")
	}
}
