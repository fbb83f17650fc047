package calibrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/klauspost/cpuid/v2"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/price"
)

// version changes with the meaning of what is measured: profiles of another version are measured again.
const version = 6

// stored is a cached profile with the device it was measured on.
type stored struct {
	Version int            `json:"version"`
	Device  string         `json:"device"`
	Profile *price.Profile `json:"profile"`
}

// identity is the device, CPU and threads that a profile is valid for.
func identity(dev backend.Device) string {
	i := dev.Info()
	return fmt.Sprintf("%s (%s) of %s, %d cores", i.Name, i.Detail, cpuid.CPU.BrandName, cpuid.CPU.LogicalCores)
}

// Path is the file that a device's profile is kept in: in the user's cache directory, one for each device.
func Path(dev backend.Device) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("calibrate: %w", err)
	}
	h := fnv.New64a()
	h.Write([]byte(identity(dev)))
	return filepath.Join(dir, "ridge", fmt.Sprintf("profile-%s-%016x.json", dev.Info().Name, h.Sum64())), nil
}

// Cached is the profile that Save kept for a device; nil, without an error, when there is none. A file that cannot be
// used is an error that says why.
func Cached(dev backend.Device) (*price.Profile, error) {
	path, err := Path(dev)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	var s stored
	err = json.Unmarshal(data, &s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("calibrate: %s is not a profile: %w", path, err)
	case s.Version != version:
		return nil, fmt.Errorf("calibrate: %s is of version %d and this program's is %d", path, s.Version, version)
	case s.Device != identity(dev):
		return nil, fmt.Errorf("calibrate: %s was measured on %s and this is %s", path, s.Device, identity(dev))
	case s.Profile == nil:
		return nil, fmt.Errorf("calibrate: %s has no profile", path)
	}
	if err := s.Profile.Validate(); err != nil {
		return nil, fmt.Errorf("calibrate: %s: %w", path, err)
	}
	return s.Profile, nil
}

// Save writes a device's profile to the cache. The write is atomic: several programs may save at once.
func Save(dev backend.Device, p *price.Profile) error {
	path, err := Path(dev)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(stored{version, identity(dev), p}, "", " ")
	if err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "profile-")
	if err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		os.Remove(temp.Name())
		return fmt.Errorf("calibrate: %w", err)
	}
	return nil
}

// Profile is the device's cached profile. When there is no valid one, the device is measured and, unless that was disturbed, cached.
// report is called with what takes time, and why.
func Profile(ctx context.Context, dev backend.Device, report func(string)) (*price.Profile, error) {
	p, err := Cached(dev)
	if p != nil {
		return p, nil
	}
	if err != nil {
		report(err.Error() + "; it is measured again")
	} else {
		report("measuring this machine once, in a few seconds")
	}
	p, disturbed, err := Measure(ctx, dev, func(string) {})
	switch {
	case err != nil:
		return nil, err
	case disturbed != "":
		report(disturbed + " meanwhile; the measurement is not kept, run ridge calibrate when the machine is quiet")
		return p, nil
	}
	if err := Save(dev, p); err != nil {
		report(err.Error() + "; the measurement is not kept")
	}
	return p, nil
}
