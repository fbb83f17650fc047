package kvevents

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// events are one of each kind, with numbers of every width.
var events = []Event{
	{Cleared: true},
	{Hashes: []uint64{1, 1 << 63}, Tokens: []int32{0, 127, 128, 255, 256, 65535, 65536, math.MaxInt32}, Block: 4},
	{Hashes: []uint64{math.MaxUint64}, Parent: 1 << 63, Tokens: manyTokens(20), Block: 20, Adapter: "sql", Salt: 0xabc},
	{Hashes: []uint64{200, 40000, 5000000000}},
}

func manyTokens(n int) (all []int32) {
	for i := range n {
		all = append(all, int32(i*i))
	}
	return all
}

// TestBytes: the bytes of a batch, which Python's msgpack has read, and what is read back of them.
func TestBytes(t *testing.T) {
	for f, want := range map[Format]string{
		Maps:   "83a27473cb3ff8000000000000a66576656e74739183a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391cd0100a66d656469756da3475055b2646174615f706172616c6c656c5f72616e6b00",
		Arrays: "93cb3ff80000000000009193ac426c6f636b52656d6f76656491cd0100a347505500",
	} {
		got := hex.EncodeToString(batch(nil, f, 1.5, []Event{{Hashes: []uint64{256}}}, 0))
		if got != want {
			t.Errorf("%s: %s\n%s wanted", f, got, want)
		}
		all, err := Read(batch(nil, f, 1.5, events, 3))
		wanted := append([]Event(nil), events...)
		wanted[2].Salt = 1 // that there is one
		if diff := cmp.Diff(wanted, all); err != nil || diff != "" {
			t.Errorf("%s: %v %s", f, err, diff)
		}
	}
}

// FuzzRead: any bytes are events that go together, or an error.
func FuzzRead(f *testing.F) {
	f.Add(batch(nil, Maps, 1, events, 0))
	f.Add(batch(nil, Arrays, 1, events, 0))
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := Read(b)
		for _, e := range all {
			if err == nil && len(e.Tokens) != e.Block*len(e.Hashes) && len(e.Tokens) > 0 {
				t.Errorf("%+v", e)
			}
		}
	})
}

// reader subscribes with libzmq, reads batches with msgpack and asks for all of them again.
const reader = `
import sys, json, zmq, msgpack
ctx = zmq.Context()
sub = ctx.socket(zmq.SUB)
sub.connect(sys.argv[1])
sub.setsockopt(zmq.SUBSCRIBE, b"kv@")
print("ready", flush=True)
def show(seq, payload):
    print(json.dumps([int.from_bytes(seq, "big", signed=True), msgpack.unpackb(payload) if payload else None]), flush=True)
topic, seq, payload = sub.recv_multipart()
assert topic == b"kv@host@model", topic
show(seq, payload)
again = ctx.socket(zmq.DEALER)
again.connect(sys.argv[2])
again.send_multipart([b"", (0).to_bytes(8, "big")])
while True:
    empty, seq, payload = again.recv_multipart()
    assert empty == b""
    show(seq, payload)
    if seq == (-1).to_bytes(8, "big", signed=True):
        break
`

// TestPython: pyzmq and msgpack, which nobody here wrote, read what is published, in both formats, and get it again from the replay socket.
func TestPython(t *testing.T) {
	python := ""
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(p, "-c", "import zmq, msgpack").Run() == nil {
			python = p
		}
	}
	if python == "" {
		t.Skip("python3 with zmq and msgpack is not here (apt-get install python3-zmq python3-msgpack)")
	}
	for _, f := range []Format{Maps, Arrays} {
		c, err := ParseConfig(fmt.Sprintf(`{"endpoint":"tcp://0.0.0.0:0","replay_endpoint":"tcp://0.0.0.0:0","topic":"kv@host@model","format":%q}`, f))
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPublisher(*c)
		if err != nil {
			t.Fatal(err)
		}
		local := func(a net.Addr) string { return fmt.Sprintf("tcp://127.0.0.1:%d", a.(*net.TCPAddr).Port) }
		cmd := exec.CommandContext(t.Context(), python, "-c", reader, local(p.pub.Addr()), local(p.replier.Addr()))
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		if line, err := lines.ReadString('\n'); line != "ready\n" {
			t.Fatal(line, err, errs.String())
		}
		var line string
		got := make(chan bool)
		go func() { line, _ = lines.ReadString('\n'); close(got) }()
		published := 0
		for open := true; open; published++ { // until the subscription is there
			for _, e := range events {
				p.Add(e)
			}
			select {
			case <-got:
				open = false
			case <-time.After(50 * time.Millisecond):
			}
		}
		rest, _ := io.ReadAll(lines)
		if err := cmd.Wait(); err != nil {
			t.Fatal(err, errs.String())
		}
		all := strings.Split(strings.TrimSpace(line+string(rest)), "\n")
		for i, text := range all {
			var message []any
			d := json.NewDecoder(strings.NewReader(text))
			d.UseNumber()
			if err := d.Decode(&message); err != nil {
				t.Fatal(text, err)
			}
			if last := i == len(all)-1; last != (message[1] == nil) || last && fmt.Sprint(message[0]) != "-1" || !last && i > 0 && fmt.Sprint(message[0]) != fmt.Sprint(i-1) {
				t.Fatalf("line %d of %d: %s", i, len(all), text)
			} else if !last {
				checkMessage(t, f, message[1])
			}
		}
		if len(all) < 3 || len(all) > published+2 {
			t.Errorf("%d lines of %d batches", len(all), published)
		}
		p.Close()
	}
}

// checkMessage compares what Python has read with the events, written out by hand.
func checkMessage(t *testing.T, f Format, got any) {
	t.Helper()
	tokens := strings.ReplaceAll(strings.Trim(fmt.Sprint(manyTokens(20)), "[]"), " ", ",")
	want := `{"events":[{"type":"AllBlocksCleared"},` +
		`{"type":"BlockStored","block_hashes":[1,9223372036854775808],"parent_block_hash":null,"token_ids":[0,127,128,255,256,65535,65536,2147483647],"block_size":4,"lora_id":null,"medium":"GPU","lora_name":null},` +
		`{"type":"BlockStored","block_hashes":[18446744073709551615],"parent_block_hash":9223372036854775808,"token_ids":[` + tokens + `],"block_size":20,"lora_id":null,"medium":"GPU","lora_name":"sql","extra_keys":[["0000000000000abc"]]},` +
		`{"type":"BlockRemoved","block_hashes":[200,40000,5000000000],"medium":"GPU"}],"data_parallel_rank":0}`
	if f == Arrays {
		want = `[[["AllBlocksCleared"],["BlockStored",[1,9223372036854775808],null,[0,127,128,255,256,65535,65536,2147483647],4,null,"GPU",null],` +
			`["BlockStored",[18446744073709551615],9223372036854775808,[` + tokens + `],20,null,"GPU","sql",[["0000000000000abc"]]],["BlockRemoved",[200,40000,5000000000],"GPU"]],0]`
	}
	var wanted any
	d := json.NewDecoder(strings.NewReader(want))
	d.UseNumber()
	if err := d.Decode(&wanted); err != nil {
		t.Fatal(err)
	}
	switch m := got.(type) { // the time is now
	case map[string]any:
		delete(m, "ts")
	case []any:
		got = m[1:]
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("%s: Python has read: %s", f, diff)
	}
}

// TestAdd: blocks of one chain become one event; where too much waits, readers are told that nothing is cached and what follows is true.
func TestAdd(t *testing.T) {
	p := &Publisher{config: Config{Queue: 3}, wake: make(chan struct{}, 1)}
	p.Add(Event{Hashes: []uint64{1}, Tokens: []int32{1, 2}, Block: 2})
	p.Add(Event{Hashes: []uint64{2}, Parent: 1, Tokens: []int32{3, 4}, Block: 2})
	p.Add(Event{Hashes: []uint64{3}, Parent: 1, Tokens: []int32{5, 6}, Block: 2})
	p.Add(Event{Hashes: []uint64{3}})
	p.Add(Event{Hashes: []uint64{2}})
	want := []Event{{Hashes: []uint64{1, 2}, Tokens: []int32{1, 2, 3, 4}, Block: 2}, {Hashes: []uint64{3}, Parent: 1, Tokens: []int32{5, 6}, Block: 2}, {Hashes: []uint64{3, 2}}}
	if diff := cmp.Diff(want, p.waiting); diff != "" {
		t.Error(diff)
	}
	if p.Add(Event{Hashes: []uint64{9}, Tokens: []int32{1, 2}, Block: 2}); !p.lost || len(p.waiting) != 0 {
		t.Errorf("%+v wait, lost: %t", p.waiting, p.lost)
	}
	if p.Add(Event{Cleared: true}); len(p.waiting) != 1 {
		t.Errorf("%+v wait", p.waiting)
	}
}

// TestConfig: vLLM's words are read with its defaults, and others are refused by name.
func TestConfig(t *testing.T) {
	c, err := ParseConfig(`{"enable_kv_cache_events": true, "publisher": "zmq", "topic": "kv@a@m"}`)
	if err != nil || !c.Enabled || c.Endpoint != "tcp://*:5557" || c.Steps != 10000 || c.Format != Maps || c.Topic != "kv@a@m" {
		t.Errorf("%+v %v", c, err)
	}
	if c, err := ParseConfig(`{"publisher": "null"}`); err != nil || c.Enabled {
		t.Errorf("%+v %v", c, err)
	}
	for _, text := range []string{"", "[]", `{"endpoints": "x"}`, `{"publisher": "kafka"}`, `{"format": "xml"}`, `{"buffer_steps": -1}`, `{} {}`} {
		if _, err := ParseConfig(text); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
