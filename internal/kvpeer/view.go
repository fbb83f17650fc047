package kvpeer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ridge-llm/ridge/engine/offload"
	"github.com/ridge-llm/ridge/internal/hostmem"
)

// Where the host memory of who gives pages can be mapped by other processes of its host (hostmem), who asks for them maps it once, is told where they lie, and copies them from there: once, and
// with a message for many of them. What it is told of stays as it is until it says that it has copied all, or its connection ends. The connection is a Unix socket then, whose other end is
// known to be open when something has been written to it: a server that gave a reader up, and wrote other pages where it was reading, has closed it before.

// place is a piece of the other side's memory.
type place struct {
	at int64
	n  int
}

const (
	placeLen   = 12
	mostPlaces = 1 << 14 // of a part: layers times heads
)

var errPlaces = errors.New("the other side says that pages lie where its memory has none")

// view is the memory of another process, by the name that it has given itself; links that use it.
type view struct {
	*hostmem.View
	of   token
	uses int
}

// unsee ends a link's use of a view.
func (p *Peer) unsee(v *view) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v.uses--; v.uses > 0 {
		return
	}
	for i, w := range p.views {
		if v == w {
			p.views = append(p.views[:i:i], p.views[i+1:]...)
		}
	}
	_ = v.Close() // it was mapped
}

// readPlaces reads where n pieces of a part lie.
func (l *link) readPlaces(at []place, n int, bytes int64) ([]place, error) {
	var b [placeLen]byte
	for i := range n {
		if _, err := io.ReadFull(l.r, b[:]); err != nil {
			return nil, err
		}
		p := place{int64(binary.LittleEndian.Uint64(b[:])), int(binary.LittleEndian.Uint32(b[8:]))}
		if l.view == nil || l.view.Bytes(p.at, p.n) == nil {
			return nil, errPlaces
		}
		if bytes -= int64(p.n); bytes < 0 || bytes > 0 && i == n-1 {
			return nil, fmt.Errorf("the pieces of a part are not as long as the part: %d bytes are left", bytes)
		}
		at = append(at, p)
	}
	return at, nil
}

// copyTo fills parts from places, which are as long in all.
func (v *view) copyTo(parts []offload.Part, at []place) error {
	c := cursorOf(parts)
	for _, p := range at {
		c.next(v.Bytes(p.at, p.n), func(page, memory []byte) { copy(page, memory) })
	}
	if len(c.pieces) > 0 {
		return errPlaces
	}
	return nil
}

// took tells the other side that what was copied out of its memory is here.
func (l *link) took(copied bool) error {
	if !copied {
		return nil
	}
	return l.ask(tookKeys, [32]byte{})
}

// placesOf is where parts lie in this process's file; false where other processes cannot map some of it.
func placesOf(parts []offload.Part) (all [][]place, ok bool) {
	for _, p := range parts {
		var places []place
		for _, piece := range p.Pieces {
			at, ok := hostmem.At(piece)
			if !ok {
				return nil, false
			}
			if n := len(places); n > 0 && places[n-1].at+int64(places[n-1].n) == at {
				places[n-1].n += len(piece)
				continue
			}
			places = append(places, place{at, len(piece)})
		}
		if len(places) > mostPlaces {
			return nil, false
		}
		all = append(all, places)
	}
	return all, true
}

// hold keeps pages as they are until they have been taken.
func (a *asked) hold(release func()) { a.held = append(a.held, release) }

// letGo ends that. The connection is closed before where the other side has not said that it has them.
func (a *asked) letGo() {
	for _, release := range a.held {
		release()
	}
	a.held = a.held[:0]
}

// patience is how long the next message may take: for ever where nothing is held.
func (a *asked) patience() error {
	if len(a.held) == 0 {
		return a.conn.SetReadDeadline(time.Time{})
	}
	return a.conn.SetReadDeadline(time.Now().Add(stalled))
}
