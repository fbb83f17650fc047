// Package kvevents says over ZeroMQ which blocks of tokens a server has cached, in the messages of vLLM (vllm/distributed/kv_events.py): a topic, a number
// of 8 bytes, and a batch of events in MessagePack. Routers (llm-d's, Dynamo's, ridge route) read them.
package kvevents

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
)

// Event is a change of what is cached. With Cleared nothing is any more; with Tokens blocks are stored after the block Parent, and else they are removed.
type Event struct {
	Cleared bool
	Hashes  []uint64 // of blocks, each of all tokens up to its end; 0 is none
	Parent  uint64   // of the block before the first; 0: there is none
	Tokens  []int32  // of all blocks
	Block   int      // tokens of a block
	Adapter string   // LoRA adapter by whose name they are kept apart; "": none
	Salt    uint64   // of what may not be shared; 0: nothing is said
}

// Format is how events are written.
type Format string

const (
	Maps   Format = "map"   // as vLLM does since 0.26
	Arrays Format = "array" // as it did before
)

// batch appends a message's batch of events of a time, s since 1970.
func batch(b []byte, f Format, at float64, all []Event, rank int) []byte {
	if f == Arrays {
		b = appendFloat(appendArray(b, 3), at)
	} else {
		b = appendFloat(appendString(appendMap(b, 3), "ts"), at)
		b = appendString(b, "events")
	}
	b = appendArray(b, len(all))
	for i := range all {
		b = all[i].append(b, f)
	}
	if f != Arrays {
		b = appendString(b, "data_parallel_rank")
	}
	return appendUint(b, uint64(rank))
}

// medium is where blocks are, in vLLM's word for the memory that attention reads.
const medium = "GPU"

// append writes an event: a map, or a list of its name and values.
func (e *Event) append(b []byte, f Format) []byte {
	field := func(name string) {
		if f != Arrays {
			b = appendString(b, name)
		}
	}
	begin := func(kind string, fields int) {
		if f == Arrays {
			b = appendString(appendArray(b, 1+fields), kind)
			return
		}
		b = appendString(appendString(appendMap(b, 1+fields), "type"), kind)
	}
	switch {
	case e.Cleared:
		begin("AllBlocksCleared", 0)
		return b
	case len(e.Tokens) == 0:
		begin("BlockRemoved", 2)
		field("block_hashes")
		b = appendHashes(b, e.Hashes)
		field("medium")
		return appendString(b, medium)
	}
	fields := 7
	if e.Salt != 0 {
		fields++
	}
	begin("BlockStored", fields)
	field("block_hashes")
	b = appendHashes(b, e.Hashes)
	field("parent_block_hash")
	if b = appendUint(b, e.Parent); e.Parent == 0 {
		b[len(b)-1] = 0xc0
	}
	field("token_ids")
	b = appendArray(b, len(e.Tokens))
	for _, t := range e.Tokens {
		b = appendUint(b, uint64(uint32(t)))
	}
	field("block_size")
	b = appendUint(b, uint64(e.Block))
	field("lora_id")
	b = appendNil(b)
	field("medium")
	b = appendString(b, medium)
	field("lora_name")
	if e.Adapter == "" {
		b = appendNil(b)
	} else {
		b = appendString(b, e.Adapter)
	}
	if e.Salt != 0 {
		field("extra_keys")
		b = appendArray(b, len(e.Hashes))
		for range e.Hashes {
			b = appendString(appendArray(b, 1), fmt.Sprintf("%016x", e.Salt))
		}
	}
	return b
}

func appendHashes(b []byte, all []uint64) []byte {
	b = appendArray(b, len(all))
	for _, h := range all {
		b = appendUint(b, h)
	}
	return b
}

// Read reads a batch of events, in either format, of Ridge or vLLM.
func Read(payload []byte) ([]Event, error) {
	v, rest, err := decode(payload, 0)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow the batch", len(rest))
	}
	if err != nil {
		return nil, fmt.Errorf("kvevents: %w", err)
	}
	var list []any
	switch b := v.(type) {
	case []any:
		if len(b) >= 2 {
			list, _ = b[1].([]any)
		}
	case map[string]any:
		list, _ = b["events"].([]any)
	}
	all := make([]Event, 0, len(list))
	for _, x := range list {
		e, err := readEvent(x)
		if err != nil {
			return nil, fmt.Errorf("kvevents: %w", err)
		}
		if e != nil {
			all = append(all, *e)
		}
	}
	return all, nil
}

// stored are the fields of BlockStored in the order of lists.
var stored = []string{"type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys"}

// readEvent reads an event; nil is one of a kind that does not matter.
func readEvent(x any) (*Event, error) {
	fields, ok := x.(map[string]any)
	if list, isList := x.([]any); isList {
		fields, ok = map[string]any{}, true
		for i, v := range list {
			if i < len(stored) {
				fields[stored[i]] = v
			}
		}
	}
	if !ok {
		return nil, errors.New("an event is neither a map nor a list")
	}
	hashes, _ := fields["block_hashes"].([]any)
	e := &Event{}
	for _, h := range hashes {
		e.Hashes = append(e.Hashes, hashOf(h))
	}
	switch fields["type"] {
	case "AllBlocksCleared":
		return &Event{Cleared: true}, nil
	case "BlockRemoved":
		return e, nil
	case "BlockStored":
	default:
		return nil, nil
	}
	e.Parent = hashOf(fields["parent_block_hash"])
	size, _ := fields["block_size"].(uint64)
	tokens, _ := fields["token_ids"].([]any)
	if size == 0 || size > 1<<20 || len(tokens) != int(size)*len(hashes) || len(tokens) == 0 {
		return nil, fmt.Errorf("%d tokens are stored in %d blocks of %d", len(tokens), len(hashes), size)
	}
	e.Block = int(size)
	for _, t := range tokens {
		id, ok := t.(uint64)
		if !ok || id > math.MaxInt32 {
			return nil, fmt.Errorf("a token is %v", t)
		}
		e.Tokens = append(e.Tokens, int32(id))
	}
	e.Adapter, _ = fields["lora_name"].(string)
	if extra, ok := fields["extra_keys"].([]any); ok {
		for _, keys := range extra {
			if keys != nil {
				e.Salt = 1 // what it is made of only its engine knows
			}
		}
	}
	return e, nil
}

var seed = maphash.MakeSeed()

// hashOf is a block's hash as a number: engines have numbers or bytes.
func hashOf(v any) uint64 {
	switch h := v.(type) {
	case uint64:
		return h
	case int64:
		return uint64(h)
	case string:
		return maphash.String(seed, h)
	}
	return 0
}
