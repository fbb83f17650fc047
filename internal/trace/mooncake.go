package trace

import "strconv"

// mooncake is the format of the traces of Mooncake (github.com/kvcache-ai/Mooncake, FAST'25): one JSON object a line, with an ID for
// every 512 tokens of the prompt. Equal IDs are equal text after equal text.
var mooncake = format{
	name:  "Mooncake",
	ours:  func(first []byte) bool { return hasField(first, "input_length") },
	start: func(t *Trace) { t.BlockSize = mooncakeBlock },
	row:   mooncakeRow,
}

const mooncakeBlock = 512 // tokens

func mooncakeRow(t *Trace, line []byte, _ int) *RowError {
	var row struct {
		Timestamp *float64 `json:"timestamp"` // milliseconds
		Input     *float64 `json:"input_length"`
		Output    *float64 `json:"output_length"`
		Blocks    []uint64 `json:"hash_ids"`
	}
	err := parseJSON(line, &row)
	if err != nil {
		return err
	}
	r := Request{Blocks: row.Blocks}
	if r.At, err = milliseconds("timestamp", row.Timestamp); err != nil {
		return err
	}
	if r.Input, err = prompt("input_length", row.Input); err != nil {
		return err
	}
	if r.Output, err = answer("output_length", row.Output); err != nil {
		return err
	}
	if most := (r.Input + mooncakeBlock - 1) / mooncakeBlock; len(r.Blocks) > most {
		return &RowError{Field: "hash_ids", Got: strconv.Itoa(len(r.Blocks)) + " blocks long",
			Want: "at most one for every 512 tokens of input_length, " + strconv.Itoa(most) + ","}
	}
	for _, b := range r.Blocks {
		if b >= ownID {
			return &RowError{Field: "hash_ids", Got: strconv.FormatUint(b, 10), Want: "IDs below 2^62"}
		}
	}
	t.Requests = append(t.Requests, r)
	return nil
}
