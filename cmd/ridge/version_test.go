package main

import (
	"os"
	"regexp"
	"testing"
)

func TestVersionOf(t *testing.T) {
	for _, c := range []struct{ given, module, want string }{
		{"", "(devel)", release + "-dev"},
		{"", "", release + "-dev"},
		{"", "v0.0.0-20261127200917-9c2eefc00f07", release + "-dev"},
		{"", "v0.3.1-0.20261127200917-9c2eefc00f07", release + "-dev"},
		{"", "v0.3.0+dirty", release + "-dev"},
		{"", "v0.3.0", "0.3.0"},
		{"v0.4.0-2-g9c2eefc", "v0.3.0", "0.4.0-2-g9c2eefc"},
	} {
		if got := versionOf(c.given, c.module); got != c.want {
			t.Errorf("given %q of the module's %q: %s, want %s", c.given, c.module, got, c.want)
		}
	}
}

// TestRelease: the changelog begins with the version that the program says.
func TestRelease(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	newest := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+)`).FindSubmatch(text)
	if newest == nil || string(newest[1]) != release {
		t.Errorf("the newest version of CHANGELOG.md is %q, that of the program %q", newest, release)
	}
}
