package main

import (
	"cmp"
	"fmt"
	"runtime"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/pass"
)

// maxLocalDevices is the most devices that a program opens for one model.
const maxLocalDevices = 64

// openDevices opens the devices of a layout, all of one backend. Those on a CPU share its threads.
func openDevices(o device.Options, l pass.Layout) ([]backend.Device, error) {
	for _, n := range []struct {
		flag string
		n    int
	}{{"tp", l.Tensor}, {"pp", l.Pipeline}, {"ep", l.Expert}} {
		if n.n < 1 || n.n > maxLocalDevices {
			return nil, fmt.Errorf("--%s %d; 1 to %d is possible", n.flag, n.n, maxLocalDevices)
		}
	}
	if l.Expert > l.Tensor {
		return nil, fmt.Errorf("--ep %d is more than --tp %d: experts can be divided among the devices of --tp", l.Expert, l.Tensor)
	}
	if l.Devices() > maxLocalDevices {
		return nil, fmt.Errorf("--tp %d and --pp %d are %d devices; at most %d are possible", l.Tensor, l.Pipeline, l.Devices(), maxLocalDevices)
	}
	if n := l.Devices(); n > 1 && !device.OnGPU(o.Backend) {
		o.Threads = max(cmp.Or(o.Threads, runtime.GOMAXPROCS(0))/n, 1)
	}
	var all []backend.Device
	for range l.Devices() {
		d, err := device.Open(o)
		if err != nil {
			closeDevices(all)
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

func closeDevices(devices []backend.Device) {
	for _, d := range devices {
		d.Close()
	}
}
