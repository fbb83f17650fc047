package ridge

import (
	"errors"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/internal/device"
)

// LoadOn is Load on a device that wrap makes of the one it would have: one that fails.
func LoadOn(path string, o Options, wrap func(backend.Device) backend.Device) (*Model, error) {
	r, err := NewRuntime(RuntimeOptions{Threads: o.Threads})
	if err != nil {
		return nil, err
	}
	r.devices = wrapped{r.devices, wrap}
	m, err := r.load(path, o)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	m.ownsRuntime = true
	return m, nil
}

type wrapped struct {
	devices
	wrap func(backend.Device) backend.Device
}

func (w wrapped) Open(o device.Options) (backend.Device, error) {
	d, err := w.devices.Open(o)
	if err != nil {
		return nil, err
	}
	return w.wrap(d), nil
}

// Ends is the tokens that end answers.
func (m *Model) Ends() []int32 { return m.ends }
