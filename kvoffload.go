package ridge

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/offload"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/kvstore"
	"github.com/ridge-llm/ridge/internal/s3"
	"github.com/ridge-llm/ridge/internal/size"
)

// KVOffload keeps what the cache has of prompts beyond it: in host memory, on a disk, and in a folder that servers share, by what it is. A prompt that begins alike finds it there,
// also after a restart, where reading it takes less than computing it. The zero value keeps nothing. See docs/caching.md.
type KVOffload struct {
	HostMemory int64  // bytes; 0: none or, with a folder, what two requests of the whole context take
	Disk       string // a folder of this host; "": none
	DiskSize   int64  // bytes that it may hold; 0: half of what is free
	Shared     string // a folder that several servers use, or a place in a bucket of a store with S3's API, s3://bucket/prefix; "": none
	SharedSize int64  // likewise
	// WriteBack keeps only what the cache has no room for any more, when it goes; else all that is computed is written to the folders, as soon as it is.
	WriteBack bool
	// Always has what is kept used wherever it is found; else only where that is predicted to take less than computing it.
	Always bool
}

// asked reports whether anything is kept.
func (k KVOffload) asked() bool { return k.HostMemory > 0 || k.folders() }

func (k KVOffload) folders() bool { return k.Disk != "" || k.Shared != "" }

// check refuses what cannot be kept, or not there.
func (k KVOffload) check(o Options) error {
	switch {
	case k.HostMemory < 0 || k.DiskSize < 0 || k.SharedSize < 0:
		return fmt.Errorf("ridge: KVOffload has %d bytes of host memory (--kv-host-memory), %d of disk (--kv-disk-size) and %d of a shared folder (--kv-shared-size); 0 or more are possible", k.HostMemory, k.DiskSize, k.SharedSize)
	case k.Disk == "" && k.DiskSize > 0:
		return errors.New("ridge: KVOffload has a DiskSize (--kv-disk-size) and no Disk (--kv-disk), the folder that it is of")
	case k.Shared == "" && k.SharedSize > 0:
		return errors.New("ridge: KVOffload has a SharedSize (--kv-shared-size) and no Shared (--kv-shared), the folder that it is of")
	case strings.HasPrefix(k.Shared, s3.Scheme) && k.SharedSize > 0:
		return fmt.Errorf("ridge: KVOffload has a SharedSize (--kv-shared-size), and objects of %s are removed by the store's own rules (a lifecycle); leave it out", k.Shared)
	case !o.keepsPages():
		return nil
	case k.Disk != "" && filepath.Clean(k.Disk) == filepath.Clean(k.Shared):
		return fmt.Errorf("ridge: %s is both Disk (--kv-disk) and Shared (--kv-shared); leave one out", k.Disk)
	case k.folders() && o.Ranks.Rendezvous != "":
		return errors.New("ridge: pages of ranks in other processes cannot be kept in folders (--kv-disk, --kv-shared); keep them in host memory (--kv-host-memory), or have all devices in one process")
	case len(o.EarlyExit.Layers) > 0:
		return errors.New("ridge: with EarlyExit (--early-exit) what the cache has of a prompt depends on how sure the model was, and is not kept beyond it; leave KVOffload (--kv-host-memory, --kv-disk, --kv-shared) out")
	case o.Record != nil:
		return errors.New("ridge: a replay of Record (--record) has none of what KVOffload (--kv-host-memory, --kv-disk, --kv-shared) keeps; leave one out")
	}
	return nil
}

// keepsPages reports whether pages are kept beyond the cache, for this server or others.
func (o Options) keepsPages() bool { return o.KVOffload.asked() || o.KVTransfer.Secret != "" }

// contextsKept is how many requests of the whole context host memory has room for where it is only the way to folders.
const contextsKept = 2

// setHostPages gives what is kept beyond the cache its pages of host memory.
func (o Options) setHostPages(lim *backend.Limits, dev backend.Device, parts []*graph.Graph, g *graph.Graph) error {
	if !o.keepsPages() || len(g.Caches) == 0 {
		return nil
	}
	if _, ok := dev.(backend.Swapper); !ok {
		return fmt.Errorf("ridge: KVOffload (--kv-host-memory, --kv-disk, --kv-shared) and device %s, which cannot move its cache to host memory; leave it out", dev.Info().Name)
	}
	p := backend.NewPaging(g, lim)
	p.Spread(parts)
	budget := o.KVOffload.HostMemory
	if budget == 0 {
		requests := contextsKept
		if o.KVTransfer.Secret != "" {
			requests = max(requests, lim.Seqs) // each may wait for another server
		}
		budget = p.HostBytes(requests * lim.SeqPages)
	}
	if !p.ShareHost(lim, budget) {
		return fmt.Errorf("ridge: KVOffload.HostMemory (--kv-host-memory) is %s and a page of the cache takes %s; at least a page is possible", size.Text(budget), size.Text(p.HostBytes(1)))
	}
	lim.HostMapped = o.KVTransfer.Listen != ""
	lim.StatePages = -1 // what has no room goes to host memory
	return nil
}

// offload opens what keeps pages beyond the cache, for the program of a graph.
func (m *Model) offload(o Options, runner compile.Runner) (x engine.Offload, err error) {
	k := o.KVOffload
	if !o.keepsPages() {
		return x, nil
	}
	x.Shared = o.KVTransfer.Secret != ""
	x.Always, x.Through = k.Always, k.folders() && !k.WriteBack || x.Shared && o.KVTransfer.Listen != ""
	if x.Seed, err = m.seed(o, runner); err != nil {
		return x, err
	}
	m.kvSeed = x.Seed
	for _, f := range []struct {
		name, dir string
		most      int64
	}{{"disk", k.Disk, k.DiskSize}, {"shared", k.Shared, k.SharedSize}} {
		if f.dir == "" {
			continue
		}
		s, err := m.openStore(f.name, f.dir, f.most)
		if err != nil {
			return x, errors.Join(err, closeStores(x.Stores))
		}
		x.Stores = append(x.Stores, s)
	}
	if x.Shared {
		m.secret = transferSalts(o.KVTransfer.Secret)
	}
	return x, nil
}

// openStore opens a folder or a place in a bucket, whose secret is the model's: the shared one's, if there are two.
func (m *Model) openStore(name, dir string, most int64) (s offload.Store, err error) {
	if strings.HasPrefix(dir, s3.Scheme) {
		b, secret, err := kvstore.OpenBucket(name, dir)
		if err != nil {
			return nil, err
		}
		m.secret = secret
		return b, nil
	}
	if m.secret, err = kvstore.Secret(dir); err != nil {
		return nil, err
	}
	f, err := kvstore.Open(name, dir, most)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func closeStores(stores []offload.Store) (err error) {
	for _, s := range stores {
		err = errors.Join(err, s.Close())
	}
	return err
}

// seed is a hash of all that the numbers in the cache depend on beside a prompt's tokens. Of a layout whose pages are those of one device that is the order in which sums are added, and counts with
// Deterministic alone.
func (m *Model) seed(o Options, runner compile.Runner) (seed [32]byte, err error) {
	print, err := m.dir.Fingerprint()
	if err != nil {
		return seed, err
	}
	info := m.device.Info()
	kernels, _, _ := strings.Cut(info.Detail, ",") // without the number of threads
	layout := o.Layout.passes().String()
	if p, ok := runner.(compile.HostPager); ok && p.Joined() && !o.Deterministic {
		layout = "joined"
	}
	sum := sha256.New()
	for _, fact := range []any{
		"pages of keys and values, version 2", buildVersion(), print, o.Cache, o.Quantization, layout, m.split.facts(), m.limits.PageSize, m.pooling,
		strings.SplitN(info.Name, ":", 2)[0], kernels, info.Kernels, info.Act, info.Q8, info.BF16, o.Deterministic,
	} {
		fmt.Fprintf(sum, "%q\n", fmt.Sprint(fact))
	}
	return [32]byte(sum.Sum(nil)), nil
}

// Places that pages are kept at beyond the cache, in the order of Stats.Kept.Found: host memory, a disk, a shared folder, another server.
const (
	KeptInMemory = iota
	KeptOnDisk
	KeptShared
	KeptAtPeer
	keptPlaces
)

// KeptStats is what is kept of prompts beyond the cache.
type KeptStats = offload.Kept

// placed brings figures by store, after the one of host memory, to their places: without a disk the first store is the shared folder.
func placed[T int | int64](sharedAlone bool, of [keptPlaces]T) [keptPlaces]T {
	if sharedAlone {
		of[KeptOnDisk], of[KeptShared] = 0, of[KeptOnDisk]
	}
	return of
}
