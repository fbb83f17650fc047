package main

import (
	"testing"

	"github.com/ridge-llm/ridge"
)

func TestBudgetFlag(t *testing.T) {
	for text, want := range map[string]ridge.Budget{
		"4GiB": {Bytes: 4 << 30}, "512MiB": {Bytes: 512 << 20}, "1.5GB": {Bytes: 15e8}, "4096": {Bytes: 4096},
		"50%": {Part: 0.5}, "100%": {Part: 1},
	} {
		var b budgetFlag
		if err := b.Set(text); err != nil || ridge.Budget(b) != want {
			t.Errorf("%s: %+v, %v", text, b, err)
		}
	}
	for _, text := range []string{"", "GiB", "-1GiB", "0", "101%", "0%", "NaN%", "4 GiB", "4gib", "1e30", "99999999TiB", "1..5GB"} {
		if err := new(budgetFlag).Set(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
