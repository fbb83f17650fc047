package server_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
)

// TestSurface holds docs/surface.md to the server: it has forty rows, as many of each kind as it says, and the endpoints that it shows are there.
func TestSurface(t *testing.T) {
	text, err := os.ReadFile("../docs/surface.md")
	if err != nil {
		t.Fatal(err)
	}
	c, _ := withStore(t, t.TempDir(), ridge.Options{Context: 64})
	row := regexp.MustCompile(`^\| (\d+) \|.*\| ([YPN]) \| (.*) \|$`)
	endpoint := regexp.MustCompile("`(GET|POST|DELETE) (/[^` ]*)`")
	rows, kinds := 0, map[string]int{}
	for line := range strings.Lines(string(text)) {
		m := row.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		rows++
		kinds[m[2]]++
		if m[1] != fmt.Sprint(rows) {
			t.Errorf("row %d is numbered %s", rows, m[1])
		}
		for _, e := range endpoint.FindAllStringSubmatch(m[3], -1) {
			q, err := http.NewRequest(e[1], c.url+e[2], strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Content-Type", "application/json")
			r, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if r.StatusCode == http.StatusNotFound || r.StatusCode == http.StatusMethodNotAllowed {
				t.Errorf("row %d shows %s %s, which is answered with %d", rows, e[1], e[2], r.StatusCode)
			}
		}
	}
	if rows != 40 {
		t.Errorf("there are %d rows, not 40", rows)
	}
	if count := fmt.Sprintf("%d Y, %d P, %d N", kinds["Y"], kinds["P"], kinds["N"]); !strings.Contains(string(text), count) {
		t.Errorf("the text does not say that there are %s", count)
	}
}
