package price

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// devices.json is published peaks of devices, dense ones, with where they are published.
//
//go:embed devices.json
var devicesJSON []byte

// published reads the table once. It is embedded and tested, so an error is a bug.
var published = sync.OnceValue(func() []*Profile {
	var all []*Profile
	if err := json.Unmarshal(devicesJSON, &all); err != nil {
		panic(fmt.Sprintf("price: devices.json: %v", err))
	}
	return all
})

// Devices is the profiles from published figures, of devices that need not be present.
func Devices() []*Profile { return published() }

// Device is the published profile of this name.
func Device(name string) (*Profile, error) {
	var names []string
	for _, p := range published() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return nil, fmt.Errorf("price: there is no device %q; there are %s; or give a file with a profile", name, strings.Join(names, ", "))
}
