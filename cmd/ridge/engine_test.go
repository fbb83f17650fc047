package main

import (
	"testing"

	"github.com/ridge-llm/ridge"
)

func TestSwapFlag(t *testing.T) {
	for text, want := range map[string]int64{"4": 4 << 30, "0.5": 1 << 29, "0": 0, "512MiB": 512 << 20} {
		var s swapFlag
		if err := s.Set(text); err != nil || int64(s) != want {
			t.Errorf("%s: %d, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "-1", "NaN", "1e300", "much", "4 GiB"} {
		if err := new(swapFlag).Set(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

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
