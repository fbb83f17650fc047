package route

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ridge-llm/ridge/route/prefix"
)

// state is what a router that is started again goes on from: which replicas there are, and what was sent where. Load and health are asked for anew.
type state struct {
	Version  int            `json:"version"`
	Rate     float64        `json:"prompt_token_seconds"`
	Replicas []savedReplica `json:"replicas"`
}

type savedReplica struct {
	URL      string       `json:"url"`
	Endpoint string       `json:"kv_events,omitempty"`
	Texts    []prefix.Key `json:"texts"` // those used longest ago first
}

const stateVersion = 1

// save writes the state to its file, whole or not at all.
func (rt *Router) save() error {
	rt.mu.Lock()
	s := state{Version: stateVersion, Rate: float64(rt.rate)}
	for _, r := range rt.replicas {
		if !r.removed {
			s.Replicas = append(s.Replicas, savedReplica{URL: r.url, Endpoint: r.endpoint, Texts: rt.texts.All(r.place)})
		}
	}
	rt.mu.Unlock()
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(rt.options.State), ".ridge-route-*")
	if err != nil {
		return fmt.Errorf("route: --state: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), rt.options.State)
	}
	if err != nil {
		return fmt.Errorf("route: --state: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// restore goes on from the file of the state, if there is one. Replicas that were added to the router before are added again.
func (rt *Router) restore() error {
	text, err := os.ReadFile(rt.options.State)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("route: --state: %w", err)
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil || s.Version != stateVersion {
		rt.log.Warn("the state of an earlier router cannot be read and is left out", "file", rt.options.State, "version", s.Version, "error", err)
		return nil
	}
	rt.rate = average(max(s.Rate, 0)) // nobody else has the router yet
	for _, old := range s.Replicas {
		named := old.URL
		if old.Endpoint != "" {
			named += "," + old.Endpoint
		}
		if err := rt.Add(named); err != nil {
			rt.log.Debug("a replica of the state", "error", err) // it is there: it was named to this router too
		}
		rt.mu.Lock()
		for _, r := range rt.replicas {
			if r.url != old.URL {
				continue
			}
			rt.texts.SetRoom(r.place, max(r.room(), len(old.Texts)))
			for _, key := range old.Texts {
				rt.texts.Sent(r.place, []prefix.Key{key})
			}
		}
		rt.mu.Unlock()
	}
	return nil
}
