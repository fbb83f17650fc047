package api

import (
	"strings"
	"testing"
)

// TestNumbers: whole numbers may be written 5.0, and numbers as strings; what is no such number is refused as before.
func TestNumbers(t *testing.T) {
	type inner struct {
		K *int `json:"k"`
	}
	type request struct {
		inner
		N       int      `json:"n"`
		T       *float64 `json:"t"`
		S       float32  `json:"s"`
		Options struct {
			Seed *int64 `json:"seed"`
		} `json:"options"`
	}
	var q request
	if err := parse([]byte(`{"n": 5.0, "t": "0.5", "k": "7", "options": {"seed": 1e3}}`), &q); err != nil {
		t.Fatal(err)
	}
	if q.N != 5 || *q.T != 0.5 || *q.K != 7 || *q.Options.Seed != 1000 {
		t.Errorf("%+v, %v, %v, %v", q, *q.T, *q.K, *q.Options.Seed)
	}
	for body, want := range map[string]string{
		`{"n": 5.5}`:                 "n is a JSON number 5.5 and should be a whole number",
		`{"n": "five"}`:              "n is a JSON string and should be a whole number",
		`{"t": "hot"}`:               "t is a JSON string and should be a number",
		`{"t": "NaN"}`:               "t is a JSON string",
		`{"t": 1e999}`:               "t is a JSON number 1e999 and should be a number in range",
		`{"s": 1e39}`:                "s is a JSON number 1e39 and should be a number in range",
		`{"s": {}}`:                  "s is a JSON object and should be a number",
		`{"n": true}`:                "n is a JSON bool",
		`{"options": {"seed": [1]}}`: "options.seed is a JSON array",
		`{"n": 1e300}`:               "n is a JSON number 1e300",
		`{"options": {"seed": 99999999999999999999}}`: "options.seed is a JSON number",
	} {
		if err := parse([]byte(body), &request{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}
