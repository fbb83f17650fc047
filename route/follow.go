package route

import (
	"context"
	"encoding/binary"

	"github.com/ridge-llm/ridge/route/kvevents"
	"github.com/ridge-llm/ridge/route/prefix"
	"github.com/ridge-llm/ridge/route/zmtp"
)

// following is what the router makes of a replica's events: keys of beginnings by the hashes that the replica has for them.
type following struct {
	keys map[uint64]prefix.Key
	next uint64 // number of the next batch; 0: any
}

// follow reads a replica's events until ctx is done. Without a connection nothing is known of what is cached but what was sent.
func (rt *Router) follow(ctx context.Context, r *replica) {
	f := &following{}
	began := func() {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		if ctx.Err() != nil { // its place may be another replica's by now
			return
		}
		rt.log.Info("cache events are read", "replica", r.url, "endpoint", r.endpoint)
		r.events = true
		f.forget(rt, r)
	}
	err := zmtp.Subscribe(ctx, r.endpoint, began, func(frames [][]byte) {
		if len(frames) != 3 || len(frames[1]) != 8 {
			return
		}
		all, err := kvevents.Read(frames[2])
		if err != nil {
			rt.log.Warn("a batch of cache events cannot be read", "replica", r.url, "error", err)
			return
		}
		rt.mu.Lock()
		defer rt.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		seq := binary.BigEndian.Uint64(frames[1])
		if f.next != 0 && seq != f.next { // batches were missed: what was removed with them would stay for ever
			f.forget(rt, r)
		}
		f.next = seq + 1
		for i := range all {
			f.apply(rt, r, &all[i])
		}
	})
	if ctx.Err() == nil {
		rt.log.Error("cache events are not read", "replica", r.url, "error", err)
	}
}

// forget begins anew. rt.mu is held.
func (f *following) forget(rt *Router, r *replica) {
	*f = following{keys: map[uint64]prefix.Key{}}
	rt.blocks.Cleared(r.place)
}

// apply takes an event in. rt.mu is held.
func (f *following) apply(rt *Router, r *replica, e *kvevents.Event) {
	switch {
	case e.Cleared:
		next := f.next
		f.forget(rt, r)
		f.next = next
		rt.texts.Cleared(r.place)
		return
	case len(e.Tokens) == 0:
		for _, h := range e.Hashes {
			if key, ok := f.keys[h]; ok {
				delete(f.keys, h)
				rt.blocks.Removed(r.place, key)
			}
		}
		return
	case e.Salt != 0: // whose they are only the replica knows
		return
	}
	rt.block = e.Block
	key, ok := f.keys[e.Parent]
	if e.Parent == 0 {
		name := e.Adapter
		if name == "" && len(r.models) > 0 {
			name = r.models[0]
		}
		key, ok = prefix.Seed(name, "", ""), true
	}
	for i, h := range e.Hashes {
		if !ok {
			return // the beginning was stored before the connection was made
		}
		key = prefix.Block(key, e.Tokens[i*e.Block:(i+1)*e.Block])
		f.keys[h] = key
		rt.blocks.Stored(r.place, key)
	}
}
