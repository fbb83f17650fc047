package main

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// planned is what ridge plan prints of a model divided between two devices.
func planned(t *testing.T, args ...string) (r splitReport, err error) {
	t.Helper()
	cmd := planCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(append(args, "--json"))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.Execute()
	if e := json.Unmarshal(out.Bytes(), &r); e != nil && err == nil {
		t.Fatalf("%v: %s", e, out.String())
	}
	return r, err
}

// TestPlanGPULayers: layers go from one memory to the other with their cache; auto takes as many as fit, and none where the GPU is too small to help.
func TestPlanGPULayers(t *testing.T) {
	const shape = "llama-3.1-8b"
	some, err := planned(t, shape, "--type", "Q4_0", "--device", "rtx4090,zen5", "--gpu-layers", "8")
	if err != nil {
		t.Fatal(err)
	}
	if len(some.Rows) != 3 || some.CPU != "zen5" || some.GPU != "rtx4090" || some.Layers != 32 || !some.Rows[1].Chosen || some.Rows[1].Last != 8 {
		t.Fatalf("%+v", some)
	}
	none, part, all := some.Rows[0], some.Rows[1], some.Rows[2]
	if none.OnGPU+none.GPUKV != 0 || all.OnCPU+all.CPUKV != 0 || part.GPUKV*4 != all.GPUKV || part.CPUKV+part.GPUKV != none.CPUKV {
		t.Errorf("memory %+v", some.Rows)
	}
	if !(none.ITL > part.ITL && part.ITL > all.ITL && none.TTFT > part.TTFT && part.TTFT > all.TTFT) {
		t.Errorf("times %+v", some.Rows)
	}
	// With a context whose cache leaves no room for all layers, auto takes what fits, and no one more.
	long := []string{shape, "--device", "zen5,rtx4090", "--input", "60000", "--output", "4000"}
	auto, err := planned(t, append(long, "--gpu-layers", "auto")...)
	if err != nil {
		t.Fatal(err)
	}
	chosen := 0
	for _, row := range auto.Rows {
		if row.Chosen {
			chosen = row.Last
		}
	}
	if chosen < 1 || chosen >= 32 || !strings.Contains(auto.Reason, "usable") {
		t.Fatalf("%+v", auto)
	}
	more, err := planned(t, append(long, "--gpu-layers", strconv.Itoa(chosen+1))...)
	if err == nil || !strings.Contains(err.Error(), "usable") || more.Rows[1].Why == "" {
		t.Errorf("one layer more: %v, %+v", err, more.Rows)
	}
	for _, args := range [][]string{
		{"--device", "rtx4090"}, {"--device", "rtx4090,h200"}, {"--device", "zen4,zen5"}, {"--device", "rtx4090,zen5", "--tp", "2"}, {"--device", "rtx4090,zen5", "--quant", "fp8"},
	} {
		if _, err := planned(t, append([]string{shape, "--gpu-layers", "8"}, args...)...); err == nil || !strings.Contains(err.Error(), "between a GPU and a CPU") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if _, err := planned(t, shape, "--type", "Q4_0", "--device", "rtx4090,zen5", "--gpu-layers", "8", "--slo", "itl=1ms"); err == nil || !strings.Contains(err.Error(), "over the 1 ms ITL limit") {
		t.Errorf("--slo: %v", err)
	}
}

// TestPlanCPUExperts: experts go from one memory to the other without the cache; auto keeps as few of them on the CPU as have no room on the GPU, where that takes less time than fewer whole layers.
func TestPlanCPUExperts(t *testing.T) {
	shape := []string{"qwen3-30b-a3b", "--type", "Q8_0", "--device", "rtx4090,zen5", "--max-model-len", "8192"}
	at := func(want string, args ...string) (chosen splitRow, all splitReport) {
		t.Helper()
		all, err := planned(t, append(shape, args...)...)
		if err != nil && !strings.Contains(err.Error(), "usable") {
			t.Fatal(err)
		}
		for _, row := range all.Rows {
			if row.Chosen {
				chosen = row
			}
		}
		if got := chosen.where(); got != want {
			t.Errorf("%q: %s is chosen, and should be %s", args, got, want)
		}
		return chosen, all
	}
	apart, all := at("48 (--n-cpu-moe 48)", "--cpu-moe")
	none, whole := all.Rows[0], all.Rows[len(all.Rows)-1]
	if apart.CPUKV != 0 || apart.GPUKV != whole.GPUKV || apart.OnGPU > whole.OnGPU/10 || apart.OnCPU < none.OnCPU*9/10 || whole.Why == "" {
		t.Errorf("memory %+v", all.Rows)
	}
	if !(apart.ITL < none.ITL && apart.ITL > 0) {
		t.Errorf("times %+v", all.Rows)
	}
	half, _ := at("48 (--n-cpu-moe 24)", "--n-cpu-moe", "24")
	if !(half.OnGPU > apart.OnGPU && half.OnGPU < whole.OnGPU && half.ITL < apart.ITL) {
		t.Errorf("half of the experts: %+v, all of them: %+v", half, apart)
	}
	auto, _ := at("48 (--n-cpu-moe 15)", "--gpu-layers", "auto")
	if one, _ := at("48 (--n-cpu-moe 14)", "--n-cpu-moe", "14"); one.Why == "" || auto.Why != "" || auto.ITL > half.ITL {
		t.Errorf("auto: %+v, the experts of one layer more: %+v", auto, one)
	}
	at("30 (--n-cpu-moe 48)", "--gpu-layers", "30", "--cpu-moe")
	if _, err := planned(t, "llama-3.1-8b", "--device", "rtx4090,zen5", "--cpu-moe"); err == nil || !strings.Contains(err.Error(), "llama has none") {
		t.Errorf("a model without experts: %v", err)
	}
}
