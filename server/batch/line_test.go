package batch

import (
	"strings"
	"testing"
)

// TestLongCustomID: the ids of a batch are kept in memory, so that none may be long.
func TestLongCustomID(t *testing.T) {
	line := func(id string) string {
		return `{"custom_id": "` + id + `", "method": "POST", "url": "/v1/completions", "body": {"prompt": "x"}}` + "\n"
	}
	total, faults := checkInput(strings.NewReader(line(strings.Repeat("x", maxCustomID))+line(strings.Repeat("y", maxCustomID+1))), "/v1/completions")
	if total != 2 || len(faults) != 1 || faults[0].Line != 2 || faults[0].Code != "invalid_custom_id" {
		t.Errorf("%d lines, faults %+v", total, faults)
	}
}
