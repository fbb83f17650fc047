package batch

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzInput: the input of a batch is refused with its lines named, or each of its lines is a request with an id of its own.
func FuzzInput(f *testing.F) {
	const endpoint = "/v1/completions"
	for _, s := range []string{
		`{"custom_id": "1", "method": "POST", "url": "/v1/completions", "body": {"prompt": "Once"}}` + "\n\n" + `{"custom_id": "2", "url": "/v1/completions", "body": {}}`,
		"{\"custom_id\": \"1\", \"url\": \"/v1/completions\", \"body\": {}}\n{\"custom_id\": \"1\", \"url\": \"/v1/completions\", \"body\": {}}\n",
		`{"custom_id": "1", "method": "GET", "url": "/v1/completions", "body": {}}`, `{"custom_id": "1", "url": "/v1/files", "body": []}`, "", "\n", "[]", "null\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		total, faults := checkInput(bytes.NewReader(input), endpoint)
		if len(faults) > 0 {
			for _, x := range faults {
				if x.Code == "" || x.Message == "" {
					t.Errorf("a fault of %q is %+v", input, x)
				}
			}
			return
		}
		ids := map[string]bool{}
		n, err := eachLine(bytes.NewReader(input), func(_ int, line []byte) error {
			var l inputLine
			if err := json.Unmarshal(line, &l); err != nil {
				return err
			}
			ids[l.CustomID] = true
			var body map[string]any
			return json.Unmarshal(l.Body, &body)
		})
		if err != nil || n != total || len(ids) != total || total == 0 {
			t.Errorf("%q has %d lines and %d ids, was taken for %d: %v", input, n, len(ids), total, err)
		}
	})
}
