package ridge

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/internal/kvpeer"
)

// KVTransfer lets servers compute prompts for each other (prefill apart from decode): pages of the cache go from the host memory of the one to that of the other. The zero value
// transfers nothing. See docs/disaggregation.md.
type KVTransfer struct {
	Secret string // that the servers have alike, of 16 bytes at least; it is not sent. "": nothing is transferred
	Listen string // host:port at which others ask for pages that were computed here; "": this one only asks
	Host   string // under which others reach it; "": that of Listen
	// Lease is how long pages are kept for another server that does not ask for them; 0: 30 s.
	Lease time.Duration
	// Peers are the servers that requests may have this one ask for pages (RemoteKV.RemoteHost): names and addresses as requests say them, and networks such as 10.0.0.0/24. nil: any,
	// so that whoever may send requests may have this server connect to any address that it reaches.
	Peers []string
}

const (
	defaultLease = 30 * time.Second
	leastSecret  = 16 // bytes
	mostPeers    = 64
	mostID       = 256 // bytes
)

// check refuses what cannot be transferred.
func (t KVTransfer) check(o Options) error {
	switch {
	case t.Secret == "" && (t.Listen != "" || t.Host != "" || t.Lease != 0 || len(t.Peers) > 0):
		return errors.New("ridge: KVTransfer has no Secret (--kv-transfer-secret-file), which the servers prove to each other to know")
	case t.Secret == "":
		return nil
	case len(t.Secret) < leastSecret:
		return fmt.Errorf("ridge: the Secret of KVTransfer (--kv-transfer-secret-file) has %d bytes; %d at least", len(t.Secret), leastSecret)
	case t.Lease < 0:
		return fmt.Errorf("ridge: the Lease of KVTransfer (--kv-transfer-lease) is %v; 0 (%v) or more is possible", t.Lease, defaultLease)
	case slices.Contains(t.Peers, ""):
		return errors.New("ridge: one of the Peers of KVTransfer (--kv-transfer-peers) is empty; names, addresses and networks are possible")
	case o.Ranks.Rendezvous != "":
		return errors.New("ridge: pages of ranks in other processes are not transferred; have all devices in one process, or leave KVTransfer (--role) out")
	}
	for _, p := range t.Peers {
		if _, err := netip.ParsePrefix(p); err != nil && strings.Contains(p, "/") {
			return fmt.Errorf("ridge: Peers of KVTransfer (--kv-transfer-peers): %q is no network such as 10.0.0.0/24: %w", p, err)
		}
	}
	return nil
}

// allows reports whether requests may name a host.
func (t KVTransfer) allows(host string) bool {
	if t.Peers == nil {
		return true
	}
	address, err := netip.ParseAddr(host)
	return slices.ContainsFunc(t.Peers, func(p string) bool {
		if network, bad := netip.ParsePrefix(p); bad == nil {
			return err == nil && network.Contains(address.Unmap())
		}
		if same, bad := netip.ParseAddr(p); bad == nil {
			return err == nil && same.Unmap() == address.Unmap()
		}
		return strings.EqualFold(p, host)
	})
}

// RemoteKV is vLLM's kv_transfer_params: what a request says about the server that has computed its prompt, or is to go on from it.
type RemoteKV struct {
	DoRemoteDecode  bool    `json:"do_remote_decode"`  // another server goes on: what is computed of the prompt is kept for it
	DoRemotePrefill bool    `json:"do_remote_prefill"` // another server has computed the prompt
	RemoteEngineID  *string `json:"remote_engine_id"`
	RemoteRequestID *string `json:"remote_request_id,omitempty"`
	RemoteBlockIDs  any     `json:"remote_block_ids"` // the numbers of the prompt's pages; pages are found by what they hold
	RemoteHost      *string `json:"remote_host"`
	RemotePort      *int    `json:"remote_port"`
	TPSize          int     `json:"tp_size,omitempty"`
	RemoteTokens    int     `json:"remote_num_tokens,omitempty"`
}

// transfer is a model's side of it.
type transfer struct {
	options KVTransfer
	seed    kv.Key
	id      string // of this process
	host    string
	port    int
	server  *kvpeer.Server // nil: nobody asks for pages

	mu    sync.Mutex
	peers map[string]*kvpeer.Peer
}

// startTransfer begins to answer those who ask for pages.
func (m *Model) startTransfer(o Options) error {
	t := o.KVTransfer
	if t.Secret == "" {
		return nil
	}
	kept := m.engine.Kept()
	if kept == nil {
		return fmt.Errorf("ridge: %s has no cache that could be transferred; leave KVTransfer (--role) out", m.name)
	}
	x := &transfer{options: t, seed: m.kvSeed, id: rand.Text(), peers: map[string]*kvpeer.Peer{}}
	m.transfer = x
	if t.Listen == "" {
		return nil
	}
	l, err := net.Listen("tcp", t.Listen)
	if err != nil {
		return fmt.Errorf("ridge: KVTransfer (--kv-transfer-listen): %w", err)
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err == nil {
		x.port, err = strconv.Atoi(port)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("ridge: KVTransfer: %w", err), l.Close())
	}
	if x.host = t.Host; x.host == "" {
		if x.host = host; net.ParseIP(host).IsUnspecified() {
			return errors.Join(errors.New("ridge: KVTransfer listens on all addresses (--kv-transfer-listen); say under which the others reach it (--kv-transfer-host)"), l.Close())
		}
	}
	note := o.Note
	x.server = kvpeer.Serve(l, []byte(t.Secret), x.seed, kept, func(err error) {
		if note != nil {
			note(err.Error())
		}
	})
	return nil
}

// close ends what goes on with others.
func (x *transfer) close() (err error) {
	if x == nil {
		return nil
	}
	if x.server != nil {
		err = x.server.Close()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.peers {
		err = errors.Join(err, p.Close())
	}
	x.peers = nil
	return err
}

// peer is the server at an address.
func (x *transfer) peer(address string) *kvpeer.Peer {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.peers[address]; p != nil {
		return p
	}
	if len(x.peers) >= mostPeers {
		for old, p := range x.peers { // any
			_ = p.Close() // those who read over it end first
			delete(x.peers, old)
			break
		}
	}
	p := kvpeer.New(address, []byte(x.options.Secret), x.seed)
	if x.peers != nil {
		x.peers[address] = p
	}
	return p
}

// remote has a request go on from what another server has computed, or keeps what it computes for one, and returns what that server is to be told.
func (m *Model) remote(q *RemoteKV, r *engine.Request) (*RemoteKV, error) {
	switch {
	case q == nil || !q.DoRemoteDecode && !q.DoRemotePrefill:
		return nil, nil
	case m.transfer == nil:
		return nil, invalidRequest("kv_transfer_params are for servers that transfer pages of the cache; this one does not (--role)")
	case q.DoRemotePrefill:
		if q.RemoteHost == nil || q.RemotePort == nil || *q.RemoteHost == "" || *q.RemotePort < 1 || *q.RemotePort > 65535 {
			return nil, invalidRequest("kv_transfer_params has do_remote_prefill and no remote_host and remote_port of the server that has computed the prompt")
		}
		if !m.transfer.options.allows(*q.RemoteHost) {
			return nil, invalidRequest(fmt.Sprintf("kv_transfer_params has the remote_host %.100q, which is none of the servers that this one asks for pages (--kv-transfer-peers)", *q.RemoteHost))
		}
		var lease kv.Key
		if q.RemoteRequestID != nil {
			lease = leaseName(*q.RemoteRequestID)
		}
		r.Peer = m.transfer.peer(net.JoinHostPort(*q.RemoteHost, strconv.Itoa(*q.RemotePort))).Prompt(lease)
		return nil, nil
	case m.transfer.server == nil:
		return nil, invalidRequest("kv_transfer_params has do_remote_decode, and this server has no address at which another could ask for the pages (--role prefill)")
	}
	id := rand.Text()
	if q.RemoteRequestID != nil && *q.RemoteRequestID != "" { // who asks has told the other server already
		id = *q.RemoteRequestID
	}
	if len(id) > mostID {
		return nil, invalidRequest(fmt.Sprintf("kv_transfer_params has a remote_request_id of %d bytes; %d are possible", len(id), mostID))
	}
	r.Lease, r.LeaseTime = leaseName(id), m.transfer.options.Lease
	if r.LeaseTime == 0 {
		r.LeaseTime = defaultLease
	}
	x := m.transfer
	pages := len(r.Prompt) / m.limits.PageSize
	blocks := make([]int, pages)
	for i := range blocks {
		blocks[i] = i
	}
	return &RemoteKV{DoRemotePrefill: true, RemoteEngineID: &x.id, RemoteRequestID: &id, RemoteBlockIDs: blocks, RemoteHost: &x.host, RemotePort: &x.port,
		TPSize: max(1, m.layout.Tensor), RemoteTokens: pages * m.limits.PageSize}, nil
}

// leaseName is a lease's name as peers say it.
func leaseName(id string) kv.Key { return sha256.Sum256([]byte(id)) }

// transferSalts is what the salts of tenants are keyed with where servers compute prompts for each other: alike in all.
func transferSalts(secret string) [32]byte {
	return sha256.Sum256([]byte("salts of tenants\n" + secret))
}
