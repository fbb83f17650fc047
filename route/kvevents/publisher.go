package kvevents

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ridge-llm/ridge/route/zmtp"
)

// Config is what --kv-events-config says, in vLLM's words.
type Config struct {
	Enabled  bool   `json:"enable_kv_cache_events"`
	Kind     string `json:"publisher"`       // zmq
	Endpoint string `json:"endpoint"`        // tcp://*:5557 to listen, tcp://HOST:PORT to connect
	Replay   string `json:"replay_endpoint"` // tcp://*:5558; "": batches are not sent again
	Steps    int    `json:"buffer_steps"`    // batches that are kept for that
	Room     int    `json:"hwm"`             // batches that wait for a slow reader
	Queue    int    `json:"max_queue_size"`  // events that wait to be published
	Topic    string `json:"topic"`
	Format   Format `json:"format"` // of Ridge's own: array is what vLLM wrote before 0.26
}

// ParseConfig reads the configuration and fills in vLLM's defaults.
func ParseConfig(text string) (*Config, error) {
	c := &Config{Enabled: true, Kind: "zmq", Endpoint: "tcp://*:5557", Steps: 10000, Room: 100000, Queue: 100000, Format: Maps}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil || d.More() {
		return nil, fmt.Errorf(`kvevents: the configuration should be JSON such as {"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:5557"}: %v`, err)
	}
	switch {
	case c.Kind != "zmq" && c.Kind != "null":
		return nil, fmt.Errorf("kvevents: the publisher is %q; zmq and null are possible", c.Kind)
	case c.Format != Maps && c.Format != Arrays:
		return nil, fmt.Errorf("kvevents: the format is %q; map and array are possible", c.Format)
	case c.Steps < 0 || c.Room < 1 || c.Queue < 1:
		return nil, fmt.Errorf("kvevents: buffer_steps is %d, hwm %d and max_queue_size %d; 0, 1 and 1 are the least", c.Steps, c.Room, c.Queue)
	}
	c.Enabled = c.Enabled && c.Kind == "zmq"
	return c, nil
}

// pause is how long events wait for others of their batch.
const pause = 5 * time.Millisecond

// Publisher sends events. Its Add is called by one goroutine, which it never holds up.
type Publisher struct {
	config  Config
	rank    int
	pub     *zmtp.Publisher
	replier *zmtp.Replier
	wake    chan struct{}
	end     chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	waiting []Event
	lost    bool // events were dropped: what readers know is no longer true

	kept sync.Mutex // of buffer
	next uint64     // number of the next batch
	all  [][]byte   // the last batches, the newest at the end
}

// NewPublisher opens the sockets.
func NewPublisher(c Config) (*Publisher, error) {
	p := &Publisher{config: c, wake: make(chan struct{}, 1), end: make(chan struct{}), done: make(chan struct{})}
	var err error
	if p.pub, err = zmtp.NewPublisher(c.Endpoint, c.Room); err != nil {
		return nil, err
	}
	if c.Replay != "" {
		if p.replier, err = zmtp.NewReplier(c.Replay, p.replay); err != nil {
			p.pub.Close()
			return nil, err
		}
	}
	go p.run()
	return p, nil
}

// Add takes an event in. One that goes on where the last one ended becomes part of it. Its slices are copied.
func (p *Publisher) Add(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch n := len(p.waiting); {
	case e.Cleared:
		p.waiting = append(p.waiting[:0], e)
	case p.lost: // told of when it is known again what is cached
	case n > 0 && p.waiting[n-1].extends(&e):
		last := &p.waiting[n-1]
		last.Hashes, last.Tokens = append(last.Hashes, e.Hashes...), append(last.Tokens, e.Tokens...)
	case n >= p.config.Queue:
		p.lost, p.waiting = true, p.waiting[:0]
	default:
		e.Hashes, e.Tokens = slices.Clone(e.Hashes), slices.Clone(e.Tokens)
		p.waiting = append(p.waiting, e)
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// extends reports whether another event goes on where this one ends.
func (e *Event) extends(o *Event) bool {
	const most = 512 // blocks of an event
	if e.Cleared || len(e.Hashes) >= most || (len(e.Tokens) == 0) != (len(o.Tokens) == 0) {
		return false
	}
	return len(e.Tokens) == 0 || e.Hashes[len(e.Hashes)-1] == o.Parent && e.Block == o.Block && e.Adapter == o.Adapter && e.Salt == o.Salt
}

// run publishes what waits, a batch at a time.
func (p *Publisher) run() {
	defer close(p.done)
	for last := false; !last; {
		select {
		case <-p.wake:
			time.Sleep(pause)
		case <-p.end:
			last = true
		}
		p.mu.Lock()
		events := p.waiting
		p.waiting = nil
		if p.lost { // readers are told that nothing is cached: less than the truth costs only time
			events, p.lost = []Event{{Cleared: true}}, false
		}
		p.mu.Unlock()
		if len(events) > 0 {
			p.publish(events)
		}
	}
}

func (p *Publisher) publish(events []Event) {
	payload := batch(nil, p.config.Format, float64(time.Now().UnixNano())/1e9, events, p.rank)
	p.kept.Lock()
	seq := p.next
	p.next++
	if p.all = append(p.all, payload); len(p.all) > p.config.Steps {
		p.all = p.all[len(p.all)-p.config.Steps:]
	}
	p.kept.Unlock()
	p.pub.Send([]byte(p.config.Topic), binary.BigEndian.AppendUint64(nil, seq), payload)
}

// replay sends the kept batches from a number on again, and an end of -1.
func (p *Publisher) replay(frames [][]byte, send func(...[]byte) error) {
	if len(frames[0]) != 8 {
		return
	}
	from := binary.BigEndian.Uint64(frames[0])
	p.kept.Lock()
	all, first := slices.Clone(p.all), p.next-uint64(len(p.all))
	p.kept.Unlock()
	for i, payload := range all {
		if seq := first + uint64(i); seq >= from && send(binary.BigEndian.AppendUint64(nil, seq), payload) != nil {
			return
		}
	}
	_ = send(binary.BigEndian.AppendUint64(nil, ^uint64(0)), nil) // an error ends the connection
}

// Close publishes what waits and closes the sockets.
func (p *Publisher) Close() {
	close(p.end)
	<-p.done
	p.pub.Close()
	if p.replier != nil {
		p.replier.Close()
	}
}
