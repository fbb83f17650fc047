package main

import (
	"slices"
	"strings"
	"testing"

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
	got := llamaShort([]string{"run", "-ngl", "3", "-ngl=4", "-nglx", "-n", "5", "--", "-ngl"})
	if want := []string{"run", "--gpu-layers", "3", "--gpu-layers=4", "-nglx", "-n", "5", "--", "-ngl"}; !slices.Equal(got, want) {
		t.Errorf("arguments are %q, and should be %q", got, want)
	}
}

// TestGPULayersDevices: which devices a number of layers opens, and what is refused.
func TestGPULayersDevices(t *testing.T) {
	b, err := modeldir.Open("../../internal/check/testdata/llama-default")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for n, want := range map[gpuLayers]string{1: "cpu ref 1", 2: "ref 0", 9: "ref 0", gpuLayers(ridge.NoGPULayers): "cpu 0"} {
		devices, last, err := n.open(device.Options{Backend: "ref", Threads: 1}, ridge.Layout{}, b.Model)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, d := range devices {
			got += d.Info().Name + " "
		}
		if got += string(rune('0' + last)); got != want {
			t.Errorf("%d layers: %s, and should be %s", n, got, want)
		}
		closeDevices(devices)
	}
	for want, o := range map[string]device.Options{"add --backend cuda": {}, "run and ridge serve keep": {Backend: "ref"}} {
		if _, _, err := gpuLayers(ridge.AutoGPULayers).open(o, ridge.Layout{}, b.Model); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("auto: %v, and should have %q", err, want)
		}
	}
}
