package main

import (
	"fmt"
	"strings"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/route/kvevents"
)

// publishCache has what the model caches published as --kv-events-config says; stop ends that.
func (f *serveFlags) publishCache() (stop func(), err error) {
	if f.kvEvents == "" {
		return func() {}, nil
	}
	c, err := kvevents.ParseConfig(f.kvEvents)
	if err != nil {
		return nil, fmt.Errorf("--kv-events-config: %s", strings.TrimPrefix(err.Error(), "kvevents: "))
	}
	if !c.Enabled {
		return func() {}, nil
	}
	p, err := kvevents.NewPublisher(*c)
	if err != nil {
		return nil, fmt.Errorf("--kv-events-config: %w", err)
	}
	f.model.options.CacheEvents = func(e ridge.CacheEvent) {
		switch e.Kind {
		case ridge.CacheCleared:
			p.Add(kvevents.Event{Cleared: true})
		case ridge.BlockRemoved:
			p.Add(kvevents.Event{Hashes: []uint64{e.Hash}})
		default:
			p.Add(kvevents.Event{Hashes: []uint64{e.Hash}, Parent: e.Before, Tokens: e.Tokens, Block: len(e.Tokens), Salt: e.Salt})
		}
	}
	f.server.Log.Info("cache events are published", "endpoint", c.Endpoint, "replay", c.Replay, "topic", c.Topic, "format", c.Format)
	return p.Close, nil
}
