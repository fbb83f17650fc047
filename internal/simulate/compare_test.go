package simulate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/loadgen"
)

// reportOf writes a simulation's report to a file, as a real run writes its own, and reads it back.
func reportOf(t *testing.T, r *loadgen.Report) *loadgen.Report {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	back, err := loadgen.ReadReport(file)
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// TestCompare: a run compared with itself is off by nothing; one with steps of half the time is found out; and requests
// come when the report says that they were sent, with the lengths that the server saw.
func TestCompare(t *testing.T) {
	o := Options{Trace: spec(t, "poisson:rate=2,n=60,in=50-300,out=2-40"), Limits: limits, Cost: millis}
	report := reportOf(t, run(t, o).Report)
	sent, err := AsSent(o.Trace, report)
	if err != nil {
		t.Fatal(err)
	}
	again := o
	again.Trace = sent
	same := Compare(report, run(t, again).Report)
	for _, c := range same {
		if c.Off > 1e-3 || c.Off < -1e-3 || !c.Kept() {
			t.Errorf("the same run is off: %+v", c)
		}
	}
	again.Cost = func(s *graph.Step) float64 { return millis(s) / 2 }
	var text strings.Builder
	kept, err := PrintComparison(&text, Compare(report, run(t, again).Report))
	if err != nil || kept || strings.Count(text.String(), "missed") < 2 {
		t.Errorf("steps of half the time: kept %v, %v\n%s", kept, err, text.String())
	}

	report.Records[3].Late, report.Records[3].Input = 30*time.Millisecond, 77
	if sent, err = AsSent(o.Trace, report); err != nil {
		t.Fatal(err)
	}
	if q := sent.Requests[3]; q.At != report.Records[3].At+30*time.Millisecond || q.Input != 77 || q.Output != o.Trace.Requests[3].Output {
		t.Errorf("request 3 is %+v; the report says %+v", q, report.Records[3])
	}
	report.Records[5].Err = &loadgen.Failure{Kind: "timed out"}
	if _, err := AsSent(o.Trace, report); err == nil || !strings.Contains(err.Error(), "request 5") {
		t.Errorf("a run with a lost request: %v", err)
	}
	if _, err := AsSent(o.Trace.First(2), report); err == nil || !strings.Contains(err.Error(), "60 requests") {
		t.Errorf("another trace: %v", err)
	}
}

// TestReportComesBack: what bench serve writes is read as it was, to the microsecond.
func TestReportComesBack(t *testing.T) {
	r := run(t, Options{Trace: spec(t, "constant:rate=5,n=3,in=40,out=4"), Limits: limits, Cost: millis}).Report
	if back := reportOf(t, r); !reflect.DeepEqual(back.Records, r.Records) || back.OutputRate != r.OutputRate {
		t.Errorf("%+v came back as %+v", r, back)
	}
	file := filepath.Join(t.TempDir(), "x.json")
	for text, want := range map[string]string{"{": "not a report", "{}": "no per_request"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := loadgen.ReadReport(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a file of %q: %v", text, err)
		}
	}
}
