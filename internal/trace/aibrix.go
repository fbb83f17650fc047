package trace

import "fmt"

// aibrix is the format of AIBrix's workload generator (github.com/vllm-project/aibrix, benchmarks): one JSON object a line with a time
// in milliseconds and the requests of that time, which have their text. Newer files spell the lengths with underscores.
var aibrix = format{
	name:  "AIBrix",
	ours:  func(first []byte) bool { return hasField(first, "requests") },
	start: func(*Trace) {},
	row:   aibrixRow,
}

func aibrixRow(t *Trace, line []byte, _ int) *RowError {
	type request struct {
		Input   *float64 `json:"Prompt Length"`
		Output  *float64 `json:"Output Length"`
		Input2  *float64 `json:"prompt_length"`
		Output2 *float64 `json:"output_length"`
		Prompt  string   `json:"prompt"`
		Session string   `json:"session_id"`
	}
	var row struct {
		Timestamp *float64  `json:"timestamp"`
		Requests  []request `json:"requests"`
	}
	err := parseJSON(line, &row)
	if err != nil {
		return err
	}
	at, err := milliseconds("timestamp", row.Timestamp)
	if err != nil {
		return err
	}
	for i, q := range row.Requests {
		r := Request{At: at, Prompt: q.Prompt, Session: q.Session}
		if q.Input == nil {
			q.Input = q.Input2
		}
		if q.Output == nil {
			q.Output = q.Output2
		}
		if r.Input, err = prompt(fmt.Sprintf("requests[%d].Prompt Length", i), q.Input); err != nil {
			return err
		}
		if r.Output, err = answer(fmt.Sprintf("requests[%d].Output Length", i), q.Output); err != nil {
			return err
		}
		t.Requests = append(t.Requests, r)
	}
	return nil
}
