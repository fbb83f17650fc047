package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/modeldir"
)

// TestGPULayersFlag: what --gpu-layers takes, and -ngl as llama.cpp's programs have it.
func TestGPULayersFlag(t *testing.T) {
	for text, want := range map[string]int{"0": int(ridge.NoGPULayers), "12": 12, "auto": int(ridge.AutoGPULayers), "all": 0} {
		var n gpuLayers
		if err := n.Set(text); err != nil || int(n) != want {
			t.Errorf("%s is %d (%v), and should be %d", text, n, err, want)
		}
	}
	for _, text := range []string{"-1", "x", "1.5", "99999999999999999999"} {
		var n gpuLayers
		if err := n.Set(text); err == nil || !strings.Contains(err.Error(), "no number of layers") {
			t.Errorf("%s: %v", text, err)
		}
	}
	got := llamaShort([]string{"run", "-ngl", "3", "-ngl=4", "-nglx", "-ncmoe", "2", "-cmoe", "-n", "5", "--", "-ngl"})
	if want := []string{"run", "--gpu-layers", "3", "--gpu-layers=4", "-nglx", "--n-cpu-moe", "2", "--cpu-moe", "-n", "5", "--", "-ngl"}; !slices.Equal(got, want) {
		t.Errorf("arguments are %q, and should be %q", got, want)
	}
}

// TestGPULayersDevices: which devices a number of layers opens, and what is refused.
func TestGPULayersDevices(t *testing.T) {
	b, err := modeldir.Open("../../internal/check/testdata/mixtral-window")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	type asked struct {
		layers  gpuLayers
		experts cpuExperts
	}
	for n, want := range map[asked]string{{1, 0}: "cpu ref {1 0 0}", {2, 0}: "ref {0 0 0}", {9, 0}: "ref {0 0 0}", {gpuLayers(ridge.NoGPULayers), 0}: "cpu {0 0 0}", {0, 1}: "cpu ref {2 1 0}", {9, 1}: "cpu ref {2 1 0}", {0, 7}: "cpu ref {2 2 0}",
		{1, cpuExperts(ridge.AllCPUExperts)}: "cpu ref {1 2 0}"} {
		devices, d, err := n.layers.open(device.Options{Backend: "ref", Threads: 1}, ridge.Layout{}, n.experts, 0, b.Model)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, d := range devices {
			got += d.Info().Name + " "
		}
		if got += fmt.Sprint(d); got != want {
			t.Errorf("%+v: %s, and should be %s", n, got, want)
		}
		closeDevices(devices)
	}
	for want, o := range map[string]device.Options{"add --backend cuda": {}, "run and ridge serve keep": {Backend: "ref"}} {
		if _, _, err := gpuLayers(ridge.AutoGPULayers).open(o, ridge.Layout{}, 0, 0, b.Model); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("auto: %v, and should have %q", err, want)
		}
	}
}

// TestCPUExpertsFlag: what --n-cpu-moe and --cpu-moe take, and which of them counts.
func TestCPUExpertsFlag(t *testing.T) {
	for args, want := range map[string]ridge.CPUExperts{"": 0, "--n-cpu-moe 3": 3, "--cpu-moe": ridge.AllCPUExperts, "--n-cpu-moe all": ridge.AllCPUExperts, "--cpu-moe=false": 0, "--n-cpu-moe 2 --cpu-moe=false": 2, "--n-cpu-moe 0": 0} {
		var n cpuExperts
		fl := pflag.NewFlagSet("", pflag.ContinueOnError)
		n.add(fl)
		if err := fl.Parse(strings.Fields(args)); err != nil || ridge.CPUExperts(n) != want {
			t.Errorf("%s: %d (%v), and should be %d", args, n, err, want)
		}
	}
	for args, want := range map[string]string{"--n-cpu-moe -1": "no number of layers", "--n-cpu-moe x": "no number of layers", "--cpu-moe=3": "neither true nor false"} {
		var n cpuExperts
		fl := pflag.NewFlagSet("", pflag.ContinueOnError)
		n.add(fl)
		if err := fl.Parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, and should have %q", args, err, want)
		}
	}
}
