package cuda

import (
	"bytes"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
)

// TestSwapsDone: what has gone to the GPU and back is in host memory when its number is said to be done, and not before it was given.
func TestSwapsDone(t *testing.T) {
	d := gpu(t, 0)
	const page, pages = 1 << 20, 96
	from, err := d.AllocHost(page*pages, "pages of a test")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Free(from)
	to, err := d.AllocHost(page*pages, "pages of a test")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Free(to)
	dev, err := d.Alloc(page*pages, "pages of a test")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Free(dev)
	want := d.HostBytes(from)
	for i := range want {
		want[i] = byte(i>>12 + i)
	}
	var in, out []backend.Move
	for p := range int64(pages) {
		in = append(in, backend.Move{Dst: dev.Slice(p*page, page), Src: from.Slice(p*page, page)})
		out = append(out, backend.Move{Dst: to.Slice(p*page, page), Src: dev.Slice(p*page, page)})
	}
	before := d.Swaps()
	began := time.Now()
	if err := d.SwapIn(in); err != nil {
		t.Fatal(err)
	}
	if err := d.SwapOut(out); err != nil {
		t.Fatal(err)
	}
	last := d.Swaps()
	if last <= before {
		t.Fatalf("copies are numbered %d, and those before %d", last, before)
	}
	polls := 0
	for {
		done, err := d.SwapsDone()
		if err != nil {
			t.Fatal(err)
		}
		if done >= last {
			break
		}
		if polls++; time.Since(began) > 20*time.Second {
			t.Fatalf("copies up to %d are done after %v; %d were given", done, time.Since(began), last)
		}
		time.Sleep(20 * time.Microsecond)
	}
	if !bytes.Equal(d.HostBytes(to), want) {
		t.Error("what came back is something else")
	}
	t.Logf("%d MiB there and back in %v, %d polls", page*pages>>20, time.Since(began), polls)
}
