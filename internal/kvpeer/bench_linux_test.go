package kvpeer

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/offload"
)

const giver = "RIDGE_KVPEER_GIVER"

// TestGiver is the other process of BenchmarkTransfer: it serves pages of the heap and pages that others can map, until its input ends.
func TestGiver(t *testing.T) {
	var size, pages int
	if n, _ := fmt.Sscanf(os.Getenv(giver), "%d,%d", &size, &pages); n != 2 {
		t.Skip("a process of BenchmarkTransfer's")
	}
	heap, mem := serve(t, newSource(pages, size)), serve(t, newSourceIn(pages, size, mapped(t)))
	fmt.Println("addresses", heap.Address(), mem.Address())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// startGiver starts it, and returns where its two servers are.
func startGiver(b *testing.B, size, pages int) (heap, mem string) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestGiver$", "-test.v")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d,%d", giver, size, pages))
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, err := fmt.Sscanf(lines.Text(), "addresses %s %s", &heap, &mem); err == nil {
			break
		}
	}
	b.Cleanup(func() {
		in.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	return heap, mem
}

// BenchmarkTransfer reads pages of another process, of 128 KiB, 512 KiB and 2 MiB (the latter two of models of 1B and 8B), by turns: over four connections of the loopback interface, through shared memory that one side fills and the
// other empties, and out of that process's memory. Beside them as many bytes go by four other connections with nothing but writes and reads, by four pairs of goroutines through buffers that
// one fills and the other empties, and by plain copies of four goroutines out of the other process's memory: the links.
func BenchmarkTransfer(b *testing.B) {
	for _, size := range []int{128 << 10, 512 << 10, 2 << 20} {
		b.Run(fmt.Sprint(size>>10), func(b *testing.B) { benchmarkTransfer(b, size, 32<<20/size) })
	}
}

const streams = 4

// links are the measured ways of a number of pages.
type links struct {
	*testing.B
	size, pages int
	plain       [][]byte // pages of this process
	buffers     [streams][]byte
}

// side has every stream do something, and returns the time that takes.
func side(do func(k int)) time.Duration {
	began := time.Now()
	var all sync.WaitGroup
	for k := range streams {
		all.Go(func() { do(k) })
	}
	all.Wait()
	return time.Since(began)
}

// transfer reads all pages of a peer, as a fetch does.
func (x *links) transfer(p *Peer) time.Duration {
	each := min(x.pages/(2*streams), 32)
	return side(func(k int) {
		for at := k * each; at < x.pages; at += streams * each {
			var keys []kv.Key
			for i := at; i < min(at+each, x.pages); i++ {
				keys = append(keys, kv.Key{byte(i)})
			}
			for len(keys) > 0 {
				n, err := p.Prompt(kv.Key{5}).Read(keys, still, func(_ int, parts []offload.Part) bool {
					parts[0].Pieces = [][]byte{x.buffers[k]}
					return true
				})
				if n == 0 || err != nil {
					x.Error(n, err)
					return
				}
				keys = keys[n:]
			}
		}
	})
}

// connections sends as much over connections.
func (x *links) connections() time.Duration {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		x.Fatal(err)
	}
	defer l.Close()
	return side(func(k int) {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			x.Error(err)
			return
		}
		defer conn.Close()
		var sender sync.WaitGroup
		sender.Go(func() {
			conn, err := l.Accept()
			if err != nil {
				x.Error(err)
				return
			}
			defer conn.Close()
			for i := k; i < x.pages; i += streams {
				if _, err := conn.Write(x.plain[i]); err != nil {
					x.Error(err)
				}
			}
		})
		for range x.pages / streams {
			if _, err := io.ReadFull(conn, x.buffers[k]); err != nil {
				x.Error(err)
			}
		}
		sender.Wait()
	})
}

const piece = 128 << 10

var between [streams][2][piece]byte

// copied goes through buffers between goroutines.
func (x *links) copied() time.Duration {
	return side(func(k int) {
		filled, free := make(chan int, 2), make(chan int, 2)
		free <- 0
		free <- 1
		var sender sync.WaitGroup
		sender.Go(func() {
			for i := k; i < x.pages; i += streams {
				for at := 0; at < x.size; at += piece {
					n := <-free
					copy(between[k][n][:], x.plain[i][at:])
					filled <- n
				}
			}
		})
		for i := k; i < x.pages; i += streams {
			for at := 0; at < x.size; at += piece {
				n := <-filled
				copy(x.buffers[k][at:], between[k][n][:])
				free <- n
			}
		}
		sender.Wait()
	})
}

// seen copies out of another process's memory, where everything lies one behind the other.
func (x *links) seen(v *view) time.Duration {
	return side(func(k int) {
		for i := k; i < x.pages; i += streams {
			copy(x.buffers[k], v.Bytes(int64(i)*int64(max(x.size, 2<<20)), x.size)) // hostmem begins a piece at a large page
		}
	})
}

func benchmarkTransfer(b *testing.B, size, pages int) {
	heap, mem := startGiver(b, size, pages)
	x := &links{B: b, size: size, pages: pages, plain: newSource(pages, size).pages}
	for i := range x.buffers {
		x.buffers[i] = make([]byte, size)
	}
	far, near, view := New(heap, secret, kv.Key{7}), New(heap, secret, kv.Key{7}), New(mem, secret, kv.Key{7})
	far.near = func(net.Conn) bool { return false }
	for _, p := range []*Peer{far, near, view} {
		defer p.Close()
		x.transfer(p)
	}
	names := []string{"tcp", "tcp-link", "memory", "memory-link", "view", "view-link"}
	times := make([][]float64, len(names))
	for range max(b.N, 15) {
		for i, d := range []time.Duration{x.transfer(far), x.connections(), x.transfer(near), x.copied(), x.transfer(view), x.seen(view.views[0])} {
			times[i] = append(times[i], d.Seconds())
		}
	}
	for i, name := range names {
		slices.Sort(times[i])
		b.ReportMetric(float64(pages*size)/times[i][len(times[i])/2]/1e9, "GB/s-"+name)
		if i%2 == 1 {
			b.ReportMetric(times[i][len(times[i])/2]/times[i-1][len(times[i])/2], "of-"+strings.TrimSuffix(name, "-link"))
		}
	}
}
