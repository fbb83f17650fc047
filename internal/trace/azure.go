package trace

import (
	"bytes"
	"math"
	"strconv"
	"time"
)

// azure is the format of the Azure LLM inference traces of 2023 and 2024 (github.com/Azure/AzurePublicDataset): CSV with the
// header TIMESTAMP,ContextTokens,GeneratedTokens, where times are of the day and may have a zone.
var azure = format{
	name:  "Azure",
	ours:  func(first []byte) bool { return bytes.Equal(first, []byte(azureHeader)) },
	start: func(*Trace) {},
	row:   azureRow,
}

const azureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens"

// azureEpoch is what arrivals count from until arrange moves them. It is early enough for all traces, and late enough
// that a time.Duration reaches from it to them.
var azureEpoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

func azureRow(t *Trace, line []byte, _ int) *RowError {
	if string(line) == azureHeader {
		return nil
	}
	fields := bytes.Split(line, []byte(","))
	if len(fields) != 3 {
		return &RowError{Got: quote(line), Want: "three fields, " + azureHeader + ","}
	}
	at, err := azureTime(string(fields[0]))
	if err != nil {
		return err
	}
	r := Request{At: at}
	input, output := azureNumber(fields[1]), azureNumber(fields[2])
	if r.Input, err = prompt("ContextTokens", &input); err != nil {
		return err
	}
	if r.Output, err = answer("GeneratedTokens", &output); err != nil {
		return err
	}
	t.Requests = append(t.Requests, r)
	return nil
}

func azureTime(text string) (time.Duration, *RowError) {
	for _, layout := range []string{"2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00"} {
		at, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		if since := at.Sub(azureEpoch); since >= 0 && since <= maxTime {
			return since, nil
		}
	}
	return 0, &RowError{Field: "TIMESTAMP", Got: quote([]byte(text)), Want: "a time from 2020 to 2029 such as 2023-11-16 18:17:03.9799600"}
}

// azureNumber parses a number; what is none becomes NaN, which no length is.
func azureNumber(text []byte) float64 {
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return math.NaN()
	}
	return n
}
